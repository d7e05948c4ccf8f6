package coordinator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Servers and connections that make life hard.

// brittle is a connection that breaks at the next request of one kind, if armed.
type brittle struct {
	net.Conn
	armed *atomic.Bool
	op    int32
}

func (b *brittle) Write(p []byte) (int, error) {
	if len(p) >= 12 && int32(binary.BigEndian.Uint32(p[8:])) == b.op && b.armed.CompareAndSwap(true, false) {
		_ = b.Conn.Close()
		return 0, errors.New("connection reset by peer")
	}
	return b.Conn.Write(p)
}

// The connection is reset right behind the handshake of a reconnect, so that the
// write of the identity fails. The client has no room for the answer to that.
func TestAnIdentityThatCannotBeSentOnAReconnect(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var armed atomic.Bool
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := srv.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &brittle{c, &armed, 100}, nil
		}
		c, err := coordinator.Connect(t.Context(), srv.Addr(), coordinator.WithDialer(dial), coordinator.WithAuth("digest", []byte("u:p")))
		if err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		srv.Cut(c.SessionID())
		time.Sleep(time.Hour) // one broken connection; after that all is well for an hour
		synctest.Wait()
		if armed.Load() {
			t.Fatal("not hit")
		}
		if c.State() != coordinator.StateConnected {
			t.Errorf("an hour after one failed write the coordinator is %v", c.State())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The answer that the session is over proves that it is not alive. The holder sits
// behind a follower that has lost its leader; no other request of its is answered.
func TestAnAnswerThatTheSessionIsOverRenewsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		id := c.SessionID()
		next := coordtest.Queue(other.Mutex(lockPath))
		srv.Strand(id, true)
		var told atomic.Bool
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Session != id || r.Op == zktest.OpConnect:
				return zktest.Pass()
			case r.Op == zktest.OpGetChildren2 && told.CompareAndSwap(false, true):
				return zktest.Fail(zktest.SessionExpired)
			default:
				return zktest.Swallow()
			}
		})
		time.Sleep(6 * time.Second) // less than the client's read timeout
		before := a.Deadline()
		c.Mutex("/locks/other").Acquire(t.Context(), coordinator.Try()) // some request
		time.Sleep(time.Millisecond)
		if after := a.Deadline(); after.After(before) {
			t.Errorf("the deadline moved by %v on being told that the session is over", after.Sub(before))
		}
		if _, err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Valid() {
			t.Errorf("two holders: the first is still valid for %v", time.Until(a.Deadline()))
		}
		srv.Strand(id, false)
	})
}

// The client takes no notice when the server turns down to restore its watches.
func TestAWaiterIsWokenAlthoughItsWatchesWereNotRestored(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		var refused atomic.Bool
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpSetWatches && refused.CompareAndSwap(false, true) {
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		srv.Cut(c.SessionID())
		time.Sleep(time.Minute)
		holder.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Wait(ctx); err != nil {
			t.Errorf("an hour after the release: %v; nodes %v", err, srv.Children(lockPath))
		}
	})
}

// A server that is overloaded, or says what nobody understands, turns requests away
// for a second: they are made again, with pauses.
func TestAServerThatTurnsRequestsAwayIsNotStormed(t *testing.T) {
	for _, code := range []zktest.Code{zktest.Throttled, zktest.SessionMoved, zktest.MarshallingError} {
		t.Run(code.Error(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				var refusing atomic.Bool
				var refused atomic.Int64
				refusing.Store(true)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if refusing.Load() && (r.Op == zktest.OpCreate || r.Op == zktest.OpMulti || r.Op == zktest.OpDelete) {
						refused.Add(1)
						return zktest.Fail(code)
					}
					return zktest.Pass()
				})
				a := c.Mutex(lockPath).Acquire(t.Context())
				time.Sleep(time.Second)
				refusing.Store(false)
				if n := refused.Load(); n < 2 || n > 50 {
					t.Errorf("%d requests in a second", n)
				}
				if _, err := a.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Sessions that end as soon as they were made, as behind a front that spreads
// connections over two ensembles: new ones are not asked for in a storm.
func TestSessionsThatEndAtOnceAreNoStorm(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var made atomic.Int64
		c := coordtest.Connect(t, srv)
		go func() {
			for time.Now().Before(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC)) {
				for _, id := range srv.Sessions() {
					_ = srv.Expire(id)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect && r.Session == 0 {
				made.Add(1)
			}
			return zktest.Pass()
		})
		time.Sleep(10 * time.Second)
		if made.Load() > 40 { // with the dialer's own back-off, up to 1 s, it would be about 15
			t.Errorf("%d sessions in 10 s", made.Load())
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c.State() != coordinator.StateConnected {
			t.Error(c.State())
		}
	})
}

// A node that may not be deleted blocks others while the session lives, so somebody
// has to hear of it.
func TestARefusedDeleteIsLogged(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.InfoLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		a.Release()
		<-a.Done()
		if !errors.Is(a.Err(), coordinator.ErrNoAuth) || logs.FilterLevelExact(zap.ErrorLevel).Len() != 1 {
			t.Errorf("Err = %v, logged %v", a.Err(), logs.All())
		}
		srv.Intercept(nil)
	})
}
