package zktest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

type stalledConn struct {
	net.Conn
	proceed chan struct{}
}

func (c *stalledConn) Write(p []byte) (int, error) {
	<-c.proceed
	return c.Conn.Write(p)
}

// TestTheLastFrameArrives: that holds even if the reader ends while the writer writes it.
// An expired session is refused like this.
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
		eventstest.Must(t, err)
		eventstest.Equal(t, string(got), "refused", "the last frame")
		eventstest.Equal(t, len(c.queue), 0, "frames that are queued after the last one")
	})
}

// TestAPipeIsAConnection: a deadline ends a write partway, and applies to a read even if
// there is something to read. A closed end cannot be used, and what was written before
// can still be read at the other end.
func TestAPipeIsAConnection(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		a, b := newPipe(&net.TCPAddr{}, &net.TCPAddr{})
		start, buf := time.Now(), make([]byte, 1)
		ends := func(what string, after time.Duration, err, want error) {
			t.Helper()
			took := time.Since(start)
			eventstest.Expect(t, errors.Is(err, want) && took == after,
				"%s ends with %v after %v, want %v after %v", what, err, took, want, after)
		}
		eventstest.Must(t, a.SetWriteDeadline(start.Add(time.Second)))
		n, err := a.Write(make([]byte, pipeBuffer+1))
		ends("a write beyond the buffer", time.Second, err, os.ErrDeadlineExceeded)
		eventstest.Equal(t, n, pipeBuffer, "written")
		eventstest.Must(t, b.SetReadDeadline(start))
		_, err = b.Read(buf)
		ends("a read after its deadline", time.Second, err, os.ErrDeadlineExceeded)
		eventstest.Must(t, errors.Join(b.SetDeadline(time.Time{}), a.Close(), a.Close()))
		got, err := io.ReadAll(b)
		eventstest.Expect(t, err == nil && len(got) == pipeBuffer, "the peer reads %d bytes, %v", len(got), err)
		_, err = b.Write(buf)
		ends("a write to a closed peer", time.Second, err, syscall.EPIPE)
		_, err = a.Read(buf)
		ends("a read after Close", time.Second, err, net.ErrClosed)
		_, err = a.Write(buf)
		ends("a write after Close", time.Second, err, net.ErrClosed)
		ends("a deadline after Close", time.Second, a.SetDeadline(start), net.ErrClosed)
	})
}
