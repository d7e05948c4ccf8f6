package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// patience is how long a wait may take here. No wait takes nearly as long.
const patience = 60 * time.Second

// patient returns a context that ends after patience.
func patient() (context.Context, context.CancelFunc) { return eventstest.Patient(patience) }

// patiently returns a context that ends with the test, or after patience.
func patiently(t *testing.T) context.Context {
	t.Helper()
	return eventstest.Patiently(t, patience)
}

// pause lets time pass, which is what is tested: the callers have referees at work meanwhile.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// happens polls until the condition holds, and reports whether it did. It may be called from any goroutine.
func happens(t *testing.T, what string, cond func() bool, state ...func() string) bool {
	t.Helper()
	began := time.Now()
	ctx, cancel := patient()
	defer cancel()
	for !cond() {
		if pause(ctx, 2*time.Millisecond); ctx.Err() != nil {
			for _, tell := range state {
				what += "; " + tell()
			}
			t.Errorf("still not after %v: %s", time.Since(began).Round(time.Millisecond), what)
			return false
		}
	}
	return true
}

// connect returns a coordinator with a session of its own. It is closed at the end of the test.
func connect(
	t *testing.T, servers string, timeout, tick time.Duration, options ...coordinator.Option,
) *coordinator.Coordinator {
	t.Helper()
	options = append(options, coordinator.WithSessionTimeout(timeout))
	if tick != 0 { // else the coordinator does not know the tick
		options = append(options, coordinator.WithTickTime(tick))
	}
	c, err := coordinator.Connect(patiently(t), servers, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// open is connect without a wait for the session.
func open(t *testing.T, servers string, timeout time.Duration) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Open(servers, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(killedTick))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// stock connects with the client library alone. The callback may be nil.
func stock(t *testing.T, servers []string, timeout time.Duration, callback zk.EventCallback) *zk.Conn {
	t.Helper()
	if callback == nil {
		callback = func(zk.Event) {}
	}
	conn, news, err := zk.Connect(servers, timeout,
		zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false), zk.WithEventCallback(callback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range news { // until the client's goroutines have ended
		}
	})
	return conn
}

// queued waits until so many nodes are in the lock's directory.
func queued(t *testing.T, raw *zk.Conn, dir string, n int) {
	t.Helper()
	var names []string
	happens(t, fmt.Sprintf("%d nodes are at %s", n, dir), func() bool {
		var err error
		if names, _, err = raw.Children(dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
			return true
		}
		return len(names) == n
	}, func() string { return fmt.Sprintf("%s, %v, shows %v", raw.Server(), raw.State(), names) })
}

// spread is the smallest, the middle and the largest of some durations, as parts of the session timeout or in
// milliseconds.
type spread struct{ all []float64 }

func (s *spread) add(v float64) { s.all = append(s.all, v) }

func (s *spread) addPart(d, timeout time.Duration) { s.add(float64(d) / float64(timeout)) }

func (s *spread) any() bool { return len(s.all) > 0 }

func (s *spread) sorted() []float64 {
	if len(s.all) == 0 {
		return []float64{0}
	}
	return slices.Sorted(slices.Values(s.all))
}

func (s *spread) min() float64 { return s.sorted()[0] }

func (s *spread) median() float64 { sorted := s.sorted(); return sorted[len(sorted)/2] }

func (s *spread) max() float64 { sorted := s.sorted(); return sorted[len(sorted)-1] }
