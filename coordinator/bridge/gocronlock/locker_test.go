package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/bridge/gocronlock"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// processes runs the test in virtual time, with a server and two coordinators.
func processes(t *testing.T, test func(t *testing.T, srv *zktest.Server, ours, theirs *coordinator.Coordinator)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var both [2]*coordinator.Coordinator
		for i := range both {
			c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
			eventstest.Must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			both[i] = c
		}
		test(t, srv, both[0], both[1])
	})
}

func lock(t *testing.T, l *gocronlock.Locker, key string) gocron.Lock {
	t.Helper()
	held, err := l.Lock(t.Context(), key)
	eventstest.Must(t, err)
	return held
}

// free checks whether the locker can lock the key.
func free(t *testing.T, l *gocronlock.Locker, key string, want bool, when string) {
	t.Helper()
	synctest.Wait()
	held, err := l.Lock(t.Context(), key)
	eventstest.Expect(t, (err == nil) == want && (err == nil || errors.As(err, new(*events.HeldError))),
		"%s: Lock returns %v, want it to succeed: %v, or to name the holder", when, err, want)
	if held != nil {
		eventstest.Check(t, held.Unlock(t.Context()))
	}
}

// TestALockIsKeptForTheMinimum: if the job ends earlier, its lock is kept until then; if
// it takes longer, its lock is released when it ends.
func TestALockIsKeptForTheMinimum(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, _ *zktest.Server, ours, theirs *coordinator.Coordinator) {
		l, other := gocronlock.New(ours, "/jobs", 10*time.Second), gocronlock.New(theirs, "/jobs", 0)
		short := lock(t, l, "a/b")
		free(t, other, "a/b", false, "while the job runs")
		free(t, other, "a", true, "for another job")
		time.Sleep(time.Second)
		asked := time.Now()
		eventstest.Check(t, short.Unlock(t.Context()))
		eventstest.Equal(t, time.Since(asked), 0, "the time that Unlock takes within the minimum")
		time.Sleep(9*time.Second - time.Millisecond)
		free(t, other, "a/b", false, "just before the end of the minimum")
		free(t, l, "a/b", false, "just before the end of the minimum, in its own process")
		time.Sleep(2 * time.Millisecond)
		free(t, other, "a/b", true, "just after the end of the minimum")

		long := lock(t, l, "a/b")
		time.Sleep(time.Minute)
		free(t, other, "a/b", false, "while the long job runs")
		eventstest.Check(t, long.Unlock(t.Context()))
		free(t, other, "a/b", true, "after the long job")
		eventstest.ErrorIs(t, long.Unlock(t.Context()), bridge.ErrNotLocked, "a second Unlock")
		eventstest.Check(t, other.Close())
		eventstest.Check(t, l.Close())
	})
}

// TestShutdownWaitsForTheMinimum, and for jobs. When its time is up, the locks of
// finished jobs are free at once, and others after the job.
func TestShutdownWaitsForTheMinimum(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, _ *zktest.Server, ours, theirs *coordinator.Coordinator) {
		other := gocronlock.New(theirs, "/jobs", 0)

		patient := gocronlock.New(ours, "/jobs", 10*time.Second)
		began := time.Now()
		eventstest.Check(t, lock(t, patient, "short").Unlock(t.Context()))
		long := lock(t, patient, "long")
		time.AfterFunc(15*time.Second, func() { eventstest.Check(t, long.Unlock(t.Context())) })
		eventstest.Check(t, patient.Shutdown(t.Context()))
		eventstest.Equal(t, time.Since(began), 15*time.Second, "Shutdown waited")
		free(t, other, "short", true, "after Shutdown")
		free(t, other, "long", true, "after Shutdown")

		hasty := gocronlock.New(ours, "/jobs", 10*time.Second)
		eventstest.Check(t, lock(t, hasty, "short").Unlock(t.Context()))
		long = lock(t, hasty, "long")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		eventstest.ErrorIs(t, hasty.Shutdown(ctx), context.DeadlineExceeded, "Shutdown with a second")
		free(t, other, "short", true, "at the end of the second, for the job that is done")
		free(t, other, "long", false, "at the end of the second, for the job that runs")
		_, err := hasty.Lock(t.Context(), "new")
		eventstest.ErrorIs(t, err, gocronlock.ErrShutdown, "Lock after Shutdown")
		eventstest.Check(t, long.Unlock(t.Context()))
		free(t, other, "long", true, "after the job, within its minimum")
		eventstest.Check(t, hasty.Close())
		eventstest.Check(t, other.Close())
		eventstest.Check(t, other.Shutdown(t.Context()))
	})
}

// TestShutdownOfAnIdleLocker has nothing to wait for, even if its context has ended.
func TestShutdownOfAnIdleLocker(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // a select between two channels that are ready takes either
		eventstest.Must(t, gocronlock.New(nil, "/jobs", 0).Shutdown(ended))
	}
}

// TestALossIsTold during the job and during the rest of the minimum.
func TestALossIsTold(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, srv *zktest.Server, ours, theirs *coordinator.Coordinator) {
		told := make(chan error, 1)
		l := gocronlock.New(ours, "/jobs", 10*time.Second, gocronlock.OnLost(func(err error) { told <- err }))
		for _, done := range []bool{false, true} {
			job := lock(t, l, "a")
			if done {
				eventstest.Check(t, job.Unlock(t.Context()))
			}
			eventstest.Must(t, srv.Expire(ours.SessionID()))
			eventstest.ErrorIs(t, <-told, coordinator.ErrSessionExpired, "job done %v: OnLost", done)
			free(t, gocronlock.New(theirs, "/jobs", 0), "a", true, "after the session")
			if !done {
				err := job.Unlock(t.Context())
				eventstest.Expect(t, errors.As(err, new(*coordinator.LostError)), "Unlock of the lost lock: %v", err)
			}
			time.Sleep(time.Minute)
		}
		eventstest.Check(t, l.Shutdown(t.Context()))
		eventstest.Equal(t, len(told), 0, "a lock that was given back is told as lost")
	})
}

// TestUnlockDuringAnOutage waits for the servers, although the lock is no longer held.
func TestUnlockDuringAnOutage(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, srv *zktest.Server, ours, _ *coordinator.Coordinator) {
		l := gocronlock.New(ours, "/jobs", 0)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect {
				return zktest.Delay(2 * time.Second)
			}
			return zktest.Pass()
		})
		for _, end := range []struct {
			after time.Duration
			want  error
			left  int // nodes
		}{{time.Second, coordinator.ErrReleasePending, 1}, {time.Minute, nil, 0}} {
			job := lock(t, l, "a")
			srv.Cut(ours.SessionID())
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), end.after)
			eventstest.ErrorIs(t, job.Unlock(ctx), end.want, "Unlock with a connection after 2 s")
			cancel()
			eventstest.Equal(t, len(srv.Children("/jobs")), end.left, "the nodes after Unlock")
			time.Sleep(time.Minute)
		}
		eventstest.Check(t, l.Close())
	})
}

// TestUnlockTellsOfALossAtTheEndOfItsContext: the coordinator was closed, the node still
// exists, and there is no time to wait.
func TestUnlockTellsOfALossAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, srv *zktest.Server, ours, _ *coordinator.Coordinator) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		told, closed := make(chan error, 1), make(chan error, 1)
		l := gocronlock.New(ours, "/jobs", 10*time.Second, gocronlock.OnLost(func(err error) { told <- err }))
		job := lock(t, l, "a")
		srv.MuteAll(true)
		go func() { closed <- ours.Close() }()
		eventstest.ErrorIs(t, <-told, coordinator.ErrClosed, "OnLost")
		eventstest.ErrorIs(t, job.Unlock(ended), coordinator.ErrClosed, "Unlock with an ended context")
		srv.MuteAll(false)
		eventstest.Check(t, <-closed)
		eventstest.Check(t, l.Close())
	})
}

// TestBadInputOfALocker is refused at once, and leaves nothing for Shutdown to wait for.
func TestBadInputOfALocker(t *testing.T) {
	t.Parallel()
	processes(t, func(t *testing.T, srv *zktest.Server, ours, _ *coordinator.Coordinator) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, test := range map[string]struct {
			root    string
			minimum time.Duration
			ctx     context.Context
			want    error
		}{
			"no root":            {"jobs", 0, t.Context(), coordinator.ErrPath},
			"a long root":        {"/" + strings.Repeat("n", 1<<20), 0, t.Context(), coordinator.ErrTooLarge},
			"a negative minimum": {"/jobs", -1, t.Context(), coordinator.ErrInvalid},
			"a forgotten unit":   {"/jobs", 10, t.Context(), coordinator.ErrInvalid},
			"an ended context":   {"/jobs", 0, ended, context.Canceled},
		} {
			l := gocronlock.New(ours, test.root, test.minimum)
			held, err := l.Lock(test.ctx, "a")
			eventstest.Expect(t, held == nil && errors.Is(err, test.want) && len(err.Error()) <= 1000,
				"%s: Lock returns %v, %.2000v, want %v in a short text", name, held, err, test.want)
			eventstest.Check(t, l.Shutdown(t.Context()))
		}
		eventstest.Equal(t, len(srv.Tree()), 0, "the nodes")
	})
}
