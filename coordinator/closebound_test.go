package coordinator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// hangs are the ways in which servers do not answer.
func hangs() map[string]func(*zktest.Server) {
	swallow := func(but ...zktest.Op) func(*zktest.Server) {
		return func(srv *zktest.Server) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				for _, op := range but {
					if r.Op == op {
						return zktest.Pass()
					}
				}
				return zktest.Swallow()
			})
		}
	}
	return map[string]func(*zktest.Server){
		"swallows all":                   swallow(),
		"swallows all but pings":         swallow(zktest.OpPing),
		"swallows all but new sessions":  swallow(zktest.OpPing, zktest.OpConnect),
		"hangs":                          func(srv *zktest.Server) { srv.MuteAll(true) },
		"hangs, and the connection goes": func(srv *zktest.Server) { srv.MuteAll(true); srv.CutAll() },
		"is away":                        func(srv *zktest.Server) { srv.Down(true) },
	}
}

// TestReleaseDoneAndCloseTakeTheTimeoutTogether: three releases in a row, a wait for each, and Close take T together when the
// server hangs, is away, or answers only pings and handshakes.
func TestReleaseDoneAndCloseTakeTheTimeoutTogether(t *testing.T) {
	for hang, fault := range hangs() {
		for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second, 30 * time.Second} {
			for name, options := range map[string][]coordinator.LockOption{"plain": nil, "with a record": {coordinator.DetectCrash()}} {
				for _, idle := range []time.Duration{0, timeout / 3, 5 * timeout} { // since it was granted, and since the fault
					t.Run(fmt.Sprintf("%s, T %v, %s, idle %v", hang, timeout, name, idle), func(t *testing.T) {
						eventstest.Bubble(t, func(t *testing.T) {
							srv := zktest.Start(t, zktest.Tick(timeout/2))
							c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
							eventstest.Must(t, err)
							var held []*coordinator.Acquisition
							for i := range 3 {
								a, _ := coordtest.Hold(t, c.Mutex(fmt.Sprintf("%s/%d", lockPath, i), options...))
								held = append(held, a)
							}
							waiting := coordtest.Queue(c.Mutex(lockPath + "/0"))
							time.Sleep(min(idle, timeout))
							fault(srv)
							time.Sleep(idle)
							start := time.Now()
							took := make([]time.Duration, 0, len(held)+1)
							for _, a := range held {
								coordtest.End(a)
								took = append(took, time.Since(start))
							}
							_ = c.Close()
							if took = append(took, time.Since(start)); took[len(held)] > timeout {
								t.Errorf("three releases and Close were through after %v, want all within %v", took, timeout)
							}
							if !coordtest.IsClosed(waiting.Done()) {
								t.Error("after Close an acquisition waits, want it over")
							}
						})
					})
				}
			}
		}
	}
}

// TestOneReleaseBeforeAServerThatAnswersReads: a release, a wait for it, and Close take T together when the server swallows writes
// of some kinds, and answers the rest. Several releases in a row can take longer: each next connection answers a read and counts as
// good.
func TestOneReleaseBeforeAServerThatAnswersReads(t *testing.T) {
	for name, swallowed := range map[string][]zktest.Op{
		"deletes":              {zktest.OpDelete},
		"transactions":         {zktest.OpMulti},
		"both, and the close":  {zktest.OpDelete, zktest.OpMulti, zktest.OpClose},
		"all writes but close": {zktest.OpCreate, zktest.OpCreate2, zktest.OpSetData, zktest.OpDelete, zktest.OpMulti, zktest.OpSync},
	} {
		for _, timeout := range []time.Duration{time.Second, 10 * time.Second} {
			for kind, options := range map[string][]coordinator.LockOption{"plain": nil, "with a record": {coordinator.DetectCrash()}} {
				t.Run(fmt.Sprintf("%s, T %v, %s", name, timeout, kind), func(t *testing.T) {
					eventstest.Bubble(t, func(t *testing.T) {
						srv := zktest.Start(t, zktest.Tick(timeout/2))
						c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
						eventstest.Must(t, err)
						a, _ := coordtest.Hold(t, c.Mutex(lockPath, options...))
						srv.Intercept(func(r zktest.Request) zktest.Action {
							if slices.Contains(swallowed, r.Op) {
								return zktest.Swallow()
							}
							return zktest.Pass()
						})
						start := time.Now()
						coordtest.End(a)
						done := time.Since(start)
						_ = c.Close()
						if took := time.Since(start); took > timeout {
							t.Errorf("Done came after %v, and Close was through after %v; want %v together", done, took, timeout)
						}
					})
				})
			}
		}
	}
}

// TestRealReleaseDoneAndCloseTakeTheTimeoutTogether: the same with a real server that falls silent.
func TestRealReleaseDoneAndCloseTakeTheTimeoutTogether(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout = 6 * time.Second
	for _, way := range []ensemble.Direction{ensemble.ToServer, ensemble.ToClient} {
		proxy := ensemble.StartProxy(t, coordtest.Servers(t, 1).Addr(0))
		c, err := coordinator.Connect(coordtest.RealContext(t), proxy.Addr(), coordinator.WithSessionTimeout(timeout))
		eventstest.Must(t, err)
		a := c.Mutex("/real-hung").Acquire(t.Context())
		coordtest.GrantOf(t, a)
		proxy.Hold(way)
		start := time.Now()
		coordtest.End(a)
		done := time.Since(start)
		_ = c.Close()
		took := time.Since(start)
		t.Logf("nothing passes %v: Done after %v, closed after %v", way, done, took)
		if took > timeout+timeout/10 { // on a machine with other work
			t.Errorf("nothing passes %v: Done came after %v, and Close was through after %v; want %v together", way, done, took, timeout)
		}
	}
}

// pingsOnly is a connection that, once it is told to, delivers only handshakes and pings to the server.
type pingsOnly struct {
	net.Conn

	on      *atomic.Bool
	greeted bool // writes come from one goroutine at a time
}

func (p *pingsOnly) Write(b []byte) (int, error) {
	const prefix, ping = 4, -2
	kept := b
	if p.on.Load() && p.greeted {
		kept = nil
		for rest := b; len(rest) >= 2*prefix; { // whole frames are written at a time
			length := prefix + int(binary.BigEndian.Uint32(rest))
			if int32(binary.BigEndian.Uint32(rest[prefix:])) == ping {
				kept = append(kept, rest[:length]...)
			}
			rest = rest[length:]
		}
	}
	p.greeted = true
	_, err := p.Conn.Write(kept)
	return len(b), err
}

// TestRealReleaseDoneAndCloseWhenPingsAreAnswered: the same with a real server that gets only pings and handshakes.
func TestRealReleaseDoneAndCloseWhenPingsAreAnswered(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout = 6 * time.Second
	var on atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &pingsOnly{Conn: conn, on: &on}, err
	}
	c, err := coordinator.Connect(coordtest.RealContext(t), coordtest.Servers(t, 1).Addr(0), coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(dial))
	eventstest.Must(t, err)
	var held []*coordinator.Acquisition
	for i := range 3 {
		a := c.Mutex(fmt.Sprintf("/real-pings/%d", i)).Acquire(t.Context())
		coordtest.GrantOf(t, a)
		held = append(held, a)
	}
	on.Store(true)
	start := time.Now()
	var done []time.Duration
	for _, a := range held {
		coordtest.End(a)
		done = append(done, time.Since(start))
	}
	_ = c.Close()
	took := time.Since(start)
	t.Logf("Done after %v, closed after %v", done, took)
	if took > timeout+timeout/10 { // on a machine with other work
		t.Errorf("Done came after %v, and Close was through after %v; want %v together", done, took, timeout)
	}
}

// TestShutdownReturnsWhenItsContextEnds, whatever it waits for, and whether its context has a deadline or is cancelled.
func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	const wait = 300 * time.Millisecond
	waits := map[string]func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator){
		"for a function": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			goOn := make(chan struct{})
			t.Cleanup(func() { close(goOn) })
			go func() {
				_ = c.Mutex(lockPath).Do(context.Background(), func(context.Context, events.Grant) error {
					<-goOn // it ignores its context
					return nil
				})
			}()
		},
		"for a reader": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			c.Mutex("bad").Acquire(t.Context())
			stream := c.Events(t.Context())
			for range 1000 {
				c.Mutex("bad").Acquire(t.Context())
			}
			through := make(chan struct{})
			t.Cleanup(func() { <-through })
			go func() {
				defer close(through)
				for range stream {
					time.Sleep(10 * time.Millisecond)
				}
			}()
		},
	}
	for hang, fault := range hangs() {
		waits["for a server that "+hang] = func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			held, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.DetectCrash()))
			fault(srv)
			held.Release()
		}
	}
	for name, begin := range waits {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %v", name, cancelled), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
					eventstest.Must(t, err)
					begin(t, srv, c)
					synctest.Wait()
					why := errors.New("enough")
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if cancelled {
						time.AfterFunc(wait, func() { cancel(why) })
					} else {
						var stop context.CancelFunc
						ctx, stop = context.WithTimeout(ctx, wait)
						defer stop()
					}
					start := time.Now()
					err = c.Shutdown(ctx)
					if took := time.Since(start); took > wait {
						t.Errorf("Shutdown = %v after %v, want it back after %v", err, took, wait)
					}
					if state := c.State(); state != coordinator.StateClosed {
						t.Errorf("after Shutdown the coordinator is %v, want it closed", state)
					}
				})
			})
		}
	}
}

// TestShutdownWaitsForAFunctionAsLongAsItMay: half of what its context leaves, less what servers need; without a deadline, until
// the function returns. No other contender is granted the lock before, and when the function has ended the servers have their time.
func TestShutdownWaitsForAFunctionAsLongAsItMay(t *testing.T) {
	const timeout = 10 * time.Second
	for name, c := range map[string]struct {
		bound  time.Duration // 0: none
		runs   time.Duration // after the end of its context
		waited time.Duration
	}{
		"no bound":             {0, time.Hour, time.Hour},
		"longer than needed":   {time.Minute, 20 * time.Second, 20 * time.Second},
		"long, and not enough": {time.Minute, time.Hour, time.Minute - timeout/2},
		"short":                {2 * time.Second, time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				closing, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
				eventstest.Must(t, err)
				other := coordtest.Connect(t, srv)
				ended := make(chan error, 1)
				go func() {
					ended <- closing.Mutex(lockPath).Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
						<-ctx.Done()
						time.Sleep(c.runs)
						return nil
					})
				}()
				synctest.Wait()
				next := coordtest.Queue(other.Mutex(lockPath))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.bound > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, c.bound)
					defer stop()
				}
				start := time.Now()
				err = closing.Shutdown(ctx)
				if told := err != nil && strings.Contains(err.Error(), "functions under a lock still run: 1"); told != (c.runs > c.waited) || err != nil && !told {
					t.Errorf("Shutdown = %v, want to be told of the function if it still runs", err)
				}
				if took := time.Since(start); took < c.waited || took > c.waited+100*time.Millisecond {
					t.Errorf("Shutdown took %v, want %v for the function and nothing for a server that answers", took, c.waited)
				}
				if grant := coordtest.Soon(t, next); grant.Waited < c.waited {
					t.Errorf("the next one was let in after %v, want %v or more", grant.Waited, c.waited)
				}
				if err := <-ended; !errors.Is(err, coordinator.ErrClosed) {
					t.Errorf("Do = %v, want ErrClosed", err)
				}
			})
		})
	}
}

// TestWhatIsLeftIsReturnedAndLogged also if the caller ignores the error, as in a deferred Close.
func TestWhatIsLeftIsReturnedAndLogged(t *testing.T) {
	for name, c := range map[string]struct {
		bound time.Duration // of Shutdown; 0: Close
		after time.Duration // when the caller ends its context
		want  []string
	}{
		"Close":               {0, 0, []string{"may be left until it expires: 3", "records left that may tell of a crash that did not happen: 1"}},
		"Shutdown":            {time.Second, 0, []string{"may be left until it expires: 3"}},
		"Shutdown is stopped": {time.Minute, time.Second, []string{"enough", "may be left until it expires: 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(zap.WarnLevel)
				closing, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithLogger(zap.New(core)))
				eventstest.Must(t, err)
				coordtest.Hold(t, closing.Mutex(lockPath))
				coordtest.Hold(t, closing.Mutex(lockPath+"2", coordinator.DetectCrash()))
				untaken := closing.Mutex(lockPath+"3", coordinator.DetectCrash()).Acquire(t.Context())
				synctest.Wait()
				if len(untaken.Granted()) == 0 {
					t.Fatal("no Grant to leave alone")
				}
				srv.MuteAll(true)
				shut := func() error { return closing.Close() }
				if c.bound > 0 {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if c.after > 0 {
						time.AfterFunc(c.after, func() { cancel(errors.New("enough")) })
					}
					bounded, stop := context.WithTimeout(ctx, c.bound)
					defer stop()
					shut = func() error { return closing.Shutdown(bounded) }
				}
				err = shut()
				said := logs.FilterMessage("something may be left").All()
				if err == nil || len(said) != 1 {
					t.Fatalf("it returned %v, and logged %d lines, want an error, and one line of it", err, len(said))
				}
				for _, want := range c.want {
					if logged := fmt.Sprint(said[0].ContextMap()["error"]); !strings.Contains(err.Error(), want) || !strings.Contains(logged, want) {
						t.Errorf("it returned %q, and logged %q; want %q in both", err, logged, want)
					}
				}
			})
		})
	}
}

func TestASecondShutdownWaitsForTheFirst(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
		eventstest.Must(t, err)
		coordtest.Hold(t, c.Mutex(lockPath))
		srv.MuteAll(true)
		first := make(chan error, 1)
		go func() { first <- c.Close() }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || len(first) > 0 {
			t.Errorf("a second Shutdown = %v, with the first one through: %v; want the end of its context before that", err, len(first) > 0)
		}
		third := c.Shutdown(t.Context())
		if err := <-first; err == nil || third == nil || third.Error() != err.Error() {
			t.Errorf("Close before a hung server = %v, and a third Shutdown = %v; want what is left, twice", err, third)
		}
		for range 20 {
			if last := c.Shutdown(ctx); last == nil || last.Error() != third.Error() { // its context has ended, too
				t.Fatalf("Shutdown after the end, with a context that has ended = %v, want %v", last, third)
			}
		}
	})
}
