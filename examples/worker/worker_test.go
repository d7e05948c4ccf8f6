package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a worker in a bubble, with its own session.
type instance struct {
	c     *coordinator.Coordinator
	stop  context.CancelFunc // SIGTERM
	ended chan error

	begun, done, failed atomic.Int32
	tokens              []int64
}

// start is begin, and returns when the instance holds the lock, or waits for it.
func start(t *testing.T, server *zktest.Server, each, drain time.Duration) *instance {
	t.Helper()
	i := begin(t, server, each, drain)
	if err := i.c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return i
}

// begin starts an instance. An item takes each, and may go on for drain after SIGTERM.
func begin(t *testing.T, server *zktest.Server, each, drain time.Duration, options ...coordinator.Option) *instance {
	t.Helper()
	c, err := coordinator.Open(server.Addr(), append(options, server.Option(), coordinator.WithSessionTimeout(sessionTimeout))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	i := &instance{c: c, stop: stop, ended: make(chan error, 1)}
	w := &worker{every: time.Second, drain: drain, item: func(ctx context.Context, token int64) error {
		i.begun.Add(1)
		i.tokens = append(i.tokens, token)
		select {
		case <-time.After(each):
			i.done.Add(1)
			return nil
		case <-ctx.Done():
			i.failed.Add(1)
			return context.Cause(ctx)
		}
	}}
	go func() {
		err := w.work(ctx, c)
		i.ended <- errors.Join(err, c.Close())
	}()
	t.Cleanup(stop)
	return i
}

// wait waits for the end of an instance that was told to stop, and checks its error.
func (i *instance) wait(t *testing.T) {
	t.Helper()
	if err := <-i.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the instance ended with %v, want %v", err, context.Canceled)
	}
}

// SIGTERM comes in the middle of an item while another instance waits.
func TestSIGTERMEndsTheItemAtHand(t *testing.T) {
	for name, test := range map[string]struct {
		drain        time.Duration
		done, failed int32
		free         time.Duration // after SIGTERM
	}{
		"in time":  {20 * time.Second, 1, 0, 7 * time.Second},
		"too slow": {3 * time.Second, 0, 1, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.Start(t)
				old := start(t, server, 10*time.Second, test.drain)
				next := start(t, server, time.Millisecond, time.Second)
				time.Sleep(4 * time.Second) // the item began after the first second
				synctest.Wait()
				if old.begun.Load() != 1 || next.begun.Load() != 0 {
					t.Fatalf("%d and %d items are begun after 4s, want 1 and 0", old.begun.Load(), next.begun.Load())
				}
				told := time.Now()
				old.stop()
				old.wait(t)
				if took := time.Since(told).Round(100 * time.Millisecond); took != test.free { // connecting takes some milliseconds
					t.Errorf("the instance stopped %v after SIGTERM, want %v", took, test.free)
				}
				if old.begun.Load() != 1 || old.done.Load() != test.done || old.failed.Load() != test.failed {
					t.Errorf("%d items begun, %d done, %d failed; want 1, %d and %d", old.begun.Load(), old.done.Load(), old.failed.Load(), test.done, test.failed)
				}
				time.Sleep(time.Second) // no session has to expire
				synctest.Wait()
				if next.done.Load() == 0 {
					t.Error("a second after the end of the first instance the next one has done nothing, want an item")
				} else if next.tokens[0] <= old.tokens[0] {
					t.Errorf("the next one's token is %d, want more than %d", next.tokens[0], old.tokens[0])
				}
				next.stop()
				next.wait(t)
			})
		})
	}
}

// SIGTERM ends the waiting at once, and the holder goes on.
func TestSIGTERMEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		holder := start(t, server, time.Millisecond, time.Second)
		waiter := start(t, server, time.Millisecond, time.Minute)
		told := time.Now()
		waiter.stop()
		waiter.wait(t)
		if took := time.Since(told); took != 0 || waiter.begun.Load() != 0 {
			t.Errorf("the waiter stopped after %v and %d items, want at once and none", took, waiter.begun.Load())
		}
		if nodes := server.Children(lockPath); len(nodes) != 1 {
			t.Errorf("the lock has the nodes %v, want the holder's", nodes)
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if holder.done.Load() != 2 {
			t.Errorf("the holder has done %d items in 2.5s, want 2", holder.done.Load())
		}
		holder.stop()
		holder.wait(t)
		if nodes := server.Children(lockPath); len(nodes) != 0 {
			t.Errorf("the lock has the nodes %v when all have stopped, want none", nodes)
		}
	})
}

// A loss ends the item at hand. Another instance works, and the first one queues up behind it.
func TestALossEndsTheItemAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		first := start(t, server, time.Hour, time.Minute)
		second := start(t, server, time.Millisecond, time.Minute)
		time.Sleep(5 * time.Second)
		if err := server.Expire(first.c.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if first.failed.Load() != 1 || first.begun.Load() != 1 || second.done.Load() == 0 {
			t.Errorf("5s after the loss the first has %d items begun and %d failed, the second %d done; want 1, 1 and some",
				first.begun.Load(), first.failed.Load(), second.done.Load())
		}
		second.stop()
		second.wait(t)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if first.begun.Load() != 2 || first.tokens[1] <= first.tokens[0] {
			t.Errorf("after the second's end the first has begun %d items with the tokens %v, want 2 and growing", first.begun.Load(), first.tokens)
		}
		first.stop()
		time.Sleep(time.Minute) // to drain
		first.wait(t)
	})
}

// A process that is cut off stops before another one works.
func TestACutOffInstanceStopsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		first := start(t, server, time.Hour, time.Minute)
		second := start(t, server, time.Millisecond, time.Minute)
		time.Sleep(5 * time.Second)
		session := first.c.SessionID()
		server.Mute(session, true)
		for second.begun.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if second.begun.Load() > 0 && first.failed.Load() == 0 {
				t.Error("the second has begun an item while the first was at one")
			}
		}
		server.Mute(session, false)
		second.stop()
		second.wait(t)
		first.stop()
		time.Sleep(time.Minute)
		first.wait(t)
	})
}

// There is no server at first, and none for a while later. The process answers all the time. It is ready while it has a connection, and
// works as soon as it has one.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		server.Down(true)
		w := begin(t, server, time.Millisecond, time.Second)
		must := func(when string, live, ready int) {
			t.Helper()
			synctest.Wait()
			for path, want := range map[string]int{"/livez": live, "/readyz": ready} {
				rw := httptest.NewRecorder()
				probes(w.c).ServeHTTP(rw, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				if rw.Code != want {
					t.Errorf("%s: GET %s is %d, want %d", when, path, rw.Code, want)
				}
			}
		}
		must("at once", 200, 503)
		time.Sleep(time.Hour)
		must("without a server", 200, 503)
		server.Down(false)
		time.Sleep(time.Minute)
		must("connected", 200, 200)
		server.Down(true)
		time.Sleep(time.Second)
		must("without a connection", 200, 503)
		server.Down(false)
		time.Sleep(10 * time.Second)
		must("connected again", 200, 200)
		w.stop()
		w.wait(t)
		if w.done.Load() < 30 || w.done.Load() > 80 {
			t.Errorf("%d items are done, want about one a second of the minute with a server, and none in the hour without", w.done.Load())
		}
	})
}

// Refused credentials do not become valid, so the process ends.
func TestRefusedCredentialsEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, zktest.Start(t), time.Millisecond, time.Second, coordinator.WithAuth("nosuchscheme", nil))
		if err := <-w.ended; !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("the instance ended with %v, want %v", err, coordinator.ErrNoAuth)
		}
	})
}

// The Deployment names existing probes, passes existing flags, and leaves enough time to stop.
func TestDeployment(t *testing.T) {
	text, err := os.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		return found
	}
	if got, want := find(`httpGet: \{ path: (\S+), port: probes \}`), []string{"/livez", "/readyz"}; !slices.Equal(got, want) {
		t.Errorf("the probes are %q, want %q", got, want)
	}
	flags := find(`"-([a-z]+)=`)
	if len(flags) == 0 {
		t.Error("there are no flags, want some")
	}
	for _, name := range flags {
		if !strings.Contains(string(source), `("`+name+`", `) {
			t.Errorf("the flag -%s is not among those of main.go", name)
		}
	}
	grace, drain := find(`terminationGracePeriodSeconds: (\d+)`), find(`"-drain=(\S+)"`)
	if len(grace) != 1 || len(drain) != 1 {
		t.Fatalf("the grace period is %q and -drain %q, want one of each", grace, drain)
	}
	seconds, err := strconv.Atoi(grace[0])
	if err != nil {
		t.Fatal(err)
	}
	item, err := time.ParseDuration(drain[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(seconds) * time.Second; got <= item+sessionTimeout {
		t.Errorf("the grace period is %v, want more than -drain, %v, and the session timeout, %v", got, item, sessionTimeout)
	}
}
