package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
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

// start is begin, but returns once the instance holds the lock or waits for it.
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

// stops stops the instance, waits for its end, checks its error, and returns how long
// that took.
func (i *instance) stops(t *testing.T) time.Duration {
	t.Helper()
	told := time.Now()
	i.stop()
	if err := <-i.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the instance ended with %v, want %v", err, context.Canceled)
	}
	return time.Since(told).Round(100 * time.Millisecond) // connecting takes some milliseconds
}

// must checks how many items were begun, done and failed.
func (i *instance) must(t *testing.T, begun, done, failed int32) {
	t.Helper()
	if i.begun.Load() != begun || i.done.Load() != done || i.failed.Load() != failed {
		t.Errorf("%d items begun, %d done, %d failed; want %d, %d and %d",
			i.begun.Load(), i.done.Load(), i.failed.Load(), begun, done, failed)
	}
}

// SIGTERM arrives in the middle of an item, while another instance waits.
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
				old.must(t, 1, 0, 0)
				next.must(t, 0, 0, 0)
				if took := old.stops(t); took != test.free {
					t.Errorf("the instance stopped %v after SIGTERM, want %v", took, test.free)
				}
				old.must(t, 1, test.done, test.failed)
				time.Sleep(time.Second) // no session has to expire
				synctest.Wait()
				if next.done.Load() == 0 || next.tokens[0] <= old.tokens[0] {
					t.Errorf("a second after the end of the first instance the next one has done %d items with the tokens %v, "+
						"want one with a token above %v", next.done.Load(), next.tokens, old.tokens)
				}
				next.stops(t)
			})
		})
	}
}

// A loss ends the current item before another instance works, whether the session ends or
// the process is cut off. The process queues up again after the other one.
func TestALossEndsTheItemAtHand(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Server, int64) error{
		"the session ends": (*zktest.Server).Expire,
		"cut off":          func(s *zktest.Server, session int64) error { s.Mute(session, true); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.Start(t)
				first := start(t, server, time.Hour, time.Minute)
				second := start(t, server, time.Millisecond, time.Minute)
				time.Sleep(5 * time.Second)
				session := first.c.SessionID()
				if err := lose(server, session); err != nil {
					t.Fatal(err)
				}
				for second.begun.Load() == 0 {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				first.must(t, 1, 0, 1)
				server.Mute(session, false)
				time.Sleep(10 * time.Second)
				second.stops(t)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				first.must(t, 2, 0, 1)
				if first.tokens[1] <= first.tokens[0] {
					t.Errorf("the tokens of the first are %v, want them growing", first.tokens)
				}
				if took := first.stops(t); took != time.Minute {
					t.Errorf("the first stopped after %v, want a minute to drain", took)
				}
			})
		})
	}
}

// There is no server at first, and again for a while later. The process answers all the
// time. It is ready while it has a connection, and works as soon as it has one.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		server.Down(true)
		w := begin(t, server, time.Millisecond, time.Second)
		for _, step := range []struct {
			after time.Duration
			down  bool
			ready int
		}{
			{0, true, http.StatusServiceUnavailable}, {time.Hour, true, http.StatusServiceUnavailable},
			{time.Minute, false, http.StatusOK}, {time.Second, true, http.StatusServiceUnavailable},
			{10 * time.Second, false, http.StatusOK},
		} {
			server.Down(step.down)
			time.Sleep(step.after)
			synctest.Wait()
			for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": step.ready} {
				rw := httptest.NewRecorder()
				probes(w.c).ServeHTTP(rw, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				if rw.Code != want {
					t.Errorf("%+v: GET %s is %d, want %d", step, path, rw.Code, want)
				}
			}
		}
		w.stops(t)
		if w.done.Load() < 30 || w.done.Load() > 80 {
			t.Errorf("%d items are done, want about one a second of the minute with a server, and none in the hour without", w.done.Load())
		}
	})
}

// Refused credentials will not become valid, so the process exits.
func TestRefusedCredentialsEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, zktest.Start(t), time.Millisecond, time.Second, coordinator.WithAuth("nosuchscheme", nil))
		if err := <-w.ended; !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("the instance ended with %v, want %v", err, coordinator.ErrNoAuth)
		}
	})
}

// The Deployment names existing probes, passes existing flags, and leaves enough time to
// stop.
func TestDeployment(t *testing.T) {
	text, err := os.ReadFile("deployment.yaml")
	source, also := os.ReadFile("main.go")
	if err = errors.Join(err, also); err != nil {
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
	if len(flags) == 0 || slices.ContainsFunc(flags, func(name string) bool {
		return !strings.Contains(string(source), `("`+name+`", `)
	}) {
		t.Errorf("the flags are %q, want those of main.go", flags)
	}
	grace, drain := find(`terminationGracePeriodSeconds: (\d+)`), find(`"-drain=(\S+)"`)
	if len(grace) != 1 || len(drain) != 1 {
		t.Fatalf("the grace period is %q and -drain %q, want one of each", grace, drain)
	}
	got, err := time.ParseDuration(grace[0] + "s")
	item, also := time.ParseDuration(drain[0])
	if err = errors.Join(err, also); err != nil || got <= item+sessionTimeout {
		t.Errorf("the grace period is %v, want more than -drain, %v, and the session timeout, %v (%v)", got, item, sessionTimeout, err)
	}
}
