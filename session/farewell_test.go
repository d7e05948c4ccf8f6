package session

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// A client without a connection ends at once, in whatever it was doing, and what waits in its queue is answered.
func TestAClientWithoutAConnectionEndsAtOnce(t *testing.T) {
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	for name, dial := range map[string]DialFunc{"while it dials": never, "between two attempts": refused} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := newRig(t, dial, testTimeout, linkEvents{}, "a:1")
				queued := make(chan error, 1)
				go func() {
					_, _, err := r.conn.Get("/x")
					queued <- err
				}()
				time.Sleep(10 * time.Millisecond)
				r.endWithin(t, 0)
				if err := <-queued; err == nil {
					t.Error("a request that no server has seen is answered, want an error")
				} else if outcome, _ := Classify(err); outcome != Unknown {
					t.Errorf("the error %v is taken for %v, want Unknown", err, outcome)
				}
			})
		})
	}
}

// With a session that it had, too.
func TestAClientThatHasLostItsConnectionEndsAtOnce(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(n int, c fakeConn) {
			if n > 1 {
				for c.recv() != nil { // accepts and says nothing
				}
				return
			}
			c.handshake()
			c.grant(testTimeout, 7)
			time.Sleep(time.Second)
		}}
		r := newRig(t, f.dial, testTimeout, linkEvents{}, "a:1")
		r.await(t, zk.StateHasSession)
		r.await(t, zk.StateDisconnected)
		synctest.Wait()
		r.dialer.stop()
		eventstest.Check(t, r.dialer.hardClose()) // the handshake under way
		r.await(t, zk.StateHasSession)            // so it believes
		r.endWithin(t, 0)
		f.wg.Wait()
	})
}
