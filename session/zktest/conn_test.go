package zktest

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// stalledConn writes when it is told to.
type stalledConn struct {
	net.Conn
	proceed chan struct{}
}

func (c *stalledConn) Write(p []byte) (int, error) {
	<-c.proceed
	return c.Conn.Write(p)
}

// TestTheLastFrameArrives: also if the reader ends while the writer writes it. A session that has expired is refused like this.
func TestTheLastFrameArrives(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		client, server := newPipe(&net.TCPAddr{}, &net.TCPAddr{})
		stalled := &stalledConn{server, make(chan struct{})}
		c := newConn(&Server{}, stalled, 1, false)
		c.send([]byte("refused"))
		c.hangUp()
		go func() {
			c.writeLoop()
			c.kill()
		}()
		synctest.Wait()
		c.finish()
		c.send([]byte("more"))
		close(stalled.proceed)
		got, err := io.ReadAll(client)
		if err != nil || string(got) != "refused" {
			t.Errorf("the client reads %q, %v; want the last frame and the end", got, err)
		}
		if len(c.queue) != 0 {
			t.Errorf("behind the last frame %d frames are queued", len(c.queue))
		}
	})
}
