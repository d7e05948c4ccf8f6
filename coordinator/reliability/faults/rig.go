package faults

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// patience bounds every wait here. No wait takes nearly as long.
const patience = 60 * time.Second

// patiently returns a context that ends with the test, or after patience.
func patiently(t *testing.T) context.Context {
	t.Helper()
	return eventstest.Patiently(t, patience)
}

// pause lets time pass. The passing time is what is tested: the callers' referees are at
// work meanwhile.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// happens polls until the condition holds, and reports whether it did. It may be called
// from any goroutine.
func happens(t *testing.T, what string, cond func() bool, state ...func() string) bool {
	t.Helper()
	began := time.Now()
	ctx, cancel := eventstest.Patient(patience)
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

// connect returns a coordinator with its own session. It is closed at the end of the
// test.
func connect(
	t *testing.T, servers string, timeout, tick time.Duration, options ...coordinator.Option,
) *coordinator.Coordinator {
	t.Helper()
	c := open(t, servers, timeout, tick, options...)
	eventstest.Must(t, c.Ready(patiently(t)))
	return c
}

// open is connect without waiting for the session.
func open(
	t *testing.T, servers string, timeout, tick time.Duration, options ...coordinator.Option,
) *coordinator.Coordinator {
	t.Helper()
	options = append(options, coordinator.WithSessionTimeout(timeout))
	if tick != 0 { // otherwise the coordinator does not know the tick
		options = append(options, coordinator.WithTickTime(tick))
	}
	c, err := coordinator.Open(servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// leader returns the leading server, and the others.
func leader(t *testing.T, e *ensemble.Ensemble) (leads int, others []int) {
	t.Helper()
	leads, err := e.Leader(patiently(t))
	eventstest.Must(t, err)
	for i := range e.Size() {
		if i != leads {
			others = append(others, i)
		}
	}
	return leads, others
}

// kill ends servers like a power cut, restart starts them, and up waits until all serve.
func kill(t *testing.T, e *ensemble.Ensemble, servers ...int) {
	t.Helper()
	for _, i := range servers {
		eventstest.Must(t, e.Kill(i))
	}
}

func restart(t *testing.T, e *ensemble.Ensemble, servers ...int) {
	t.Helper()
	for _, i := range servers {
		eventstest.Must(t, e.Restart(i))
	}
}

func up(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	eventstest.Must(t, e.Wait(patiently(t)))
}

// reboot kills all servers, and starts them again.
func reboot(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	kill(t, e, everyServer(e)...)
	restart(t, e, everyServer(e)...)
	up(t, e)
}

// everyServer returns the numbers of all servers of the ensemble.
func everyServer(e *ensemble.Ensemble) (all []int) {
	for i := range e.Size() {
		all = append(all, i)
	}
	return all
}

func each[T any](all []T, do func(T)) {
	var running sync.WaitGroup
	for _, one := range all {
		running.Go(func() { do(one) })
	}
	running.Wait()
}

// spread is a sorted list of durations, as parts of the session timeout.
type spread []float64

func (s *spread) add(d, timeout time.Duration) {
	*s = append(*s, float64(d)/float64(timeout))
	slices.Sort(*s)
}

func (s *spread) at(part float64) float64 {
	if len(*s) == 0 {
		return 0
	}
	return (*s)[min(int(part*float64(len(*s))), len(*s)-1)]
}
