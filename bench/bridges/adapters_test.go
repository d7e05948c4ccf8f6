package bridges

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/thejerf/suture/v4"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// The tests in this file exercise the adapters that docs/bridges.md offers for copying.

var (
	_ certmagic.Storage          = certificateStorage{}
	_ certmagic.LockLeaseRenewer = certificateStorage{}
)

// TestCertificatesAreLocked: only one caller has a name, within a process and among
// several. After a loss the next attempt locks the name again.
func TestCertificatesAreLocked(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		c := s.process()
		ours, theirs := &certificateLocks{c: c, root: "/certificates"}, &certificateLocks{c: s.process(), root: "/certificates"}
		for _, l := range []*certificateLocks{ours, theirs} {
			eventstest.ErrorIs(s, l.Unlock(s.Context(), "a"), bridge.ErrNotLocked, "Unlock of a free name")
			eventstest.Must(s, ours.Lock(s.Context(), "a"))
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			eventstest.ErrorIs(s, l.Lock(ctx, "a"), context.DeadlineExceeded,
				"Lock of a locked name, with a second to wait")
			cancel()
			eventstest.Must(s, ours.Unlock(s.Context(), "a"))
		}
		eventstest.Must(s, ours.Lock(s.Context(), "a"))
		eventstest.Check(s, ours.RenewLockLease(s.Context(), "a", time.Hour))
		s.lose(c)
		eventstest.Must(s, theirs.Lock(s.Context(), "a"))
		synctest.Wait()
		renewed := make(chan error, 1)
		go func() { renewed <- ours.RenewLockLease(s.Context(), "a", time.Hour) }()
		synctest.Wait()
		if len(renewed) > 0 {
			s.Errorf("RenewLockLease while another process has the name: %v, want it to wait", <-renewed)
		}
		eventstest.Must(s, theirs.Unlock(s.Context(), "a"))
		eventstest.Must(s, <-renewed)
		s.queued(c.Mutex("/certificates/a"), 1)
		eventstest.Must(s, ours.Unlock(s.Context(), "a"))
		eventstest.Must(s, ours.Lock(s.Context(), "a"))
		s.lose(c)
		time.Sleep(time.Minute)
		s.isLoss(ours.Unlock(s.Context(), "a"), "Unlock of a lost lock")
		// certmagic.CleanUpOwnLocks unlocks it again, because the first time failed.
		eventstest.ErrorIs(s, ours.Unlock(s.Context(), "a"), bridge.ErrNotLocked, "Unlock of an unlocked name")
		eventstest.ErrorIs(s, ours.RenewLockLease(s.Context(), "a", time.Hour), bridge.ErrNotLocked, "RenewLockLease of an unlocked name")
		eventstest.Must(s, ours.Lock(s.Context(), "a"))
		eventstest.Must(s, ours.Unlock(s.Context(), "a"))
	})
}

// TestSutureLeadsAgainAfterALoss: the work stops, another process leads, and the
// supervisor makes the first one campaign again.
func TestSutureLeadsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		type turn struct {
			of    *coordinator.Coordinator
			token int64
		}
		leads, ends, failed := make(chan turn, 9), make(chan error, 9), make(chan error, 9)
		ctx, stop := context.WithCancel(s.Context())
		defer stop()
		supervisor := suture.New("test", suture.Spec{EventHook: func(e suture.Event) {
			if e, ok := e.(suture.EventServiceTerminate); ok {
				err, _ := e.Err.(error)
				failed <- err
			}
		}, FailureBackoff: time.Millisecond})
		for range 2 {
			c := s.process()
			supervisor.Add(leader{c.Election("/leader"), func(ctx context.Context, token int64) error {
				leads <- turn{c, token}
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return ctx.Err()
			}})
		}
		over := supervisor.ServeBackground(ctx)
		last, observer := turn{}, s.process().Mutex("/leader")
		for range 4 {
			now := <-leads
			eventstest.Expect(s, now.of != last.of && now.token > last.token,
				"%+v leads after %+v, want the other one with a greater token", now, last)
			last = now
			s.queued(observer, 2)
			s.lose(now.of)
			for what, told := range map[string]<-chan error{"the work": ends, "the supervisor": failed} {
				s.isLoss(<-told, "what "+what+" is told")
			}
		}
		<-leads
		stop()
		eventstest.ErrorIs(s, <-over, context.Canceled, "the end of the supervisor")
		s.queued(observer, 0)
	})
}

// TestUploadsAreInterrupted: a second request, in this process or another one, asks the
// holder to unlock, and then gets the upload. A holder that does not unlock loses the
// lock after the grace. The holder is notified of every loss.
func TestUploadsAreInterrupted(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		c := s.process()
		here, there := uploadLocker{c, time.Minute}, uploadLocker{s.process(), time.Minute}
		request := func(of uploadLocker) (l *uploadLock, asked chan struct{}) {
			made, err := of.NewLock("a/b")
			eventstest.Must(s, err)
			asked = make(chan struct{}, 9)
			eventstest.Must(s, made.Lock(s.Context(), func() { asked <- struct{}{} }))
			return made.(*uploadLock), asked
		}
		holder, asked := request(here)
		for turn, of := range []uploadLocker{there, there, here, here} {
			unlocked := make(chan error, 1)
			go func() {
				<-asked
				unlocked <- holder.Unlock()
			}()
			next, nextAsked := request(of)
			eventstest.Check(s, <-unlocked)
			time.Sleep(2 * time.Minute)
			eventstest.Equal(s, len(asked), 0, "turn %d: how often the holder was asked once more", turn)
			eventstest.Equal(s, len(nextAsked), 0, "turn %d: how often the next one was asked", turn)
			holder, asked = next, nextAsked
		}
		began := time.Now()
		next, nextAsked := request(there)
		took := time.Since(began)
		eventstest.Expect(s, took >= time.Minute,
			"a holder that does not unlock has lost the upload after %v, want its grace of a minute", took)
		<-asked
		eventstest.ErrorIs(s, holder.Unlock(), coordinator.ErrRevoked, "its Unlock")
		s.lose(there.c)
		<-nextAsked
		eventstest.ErrorIs(s, next.Unlock(), coordinator.ErrSessionExpired, "Unlock after the session's end")
	})
}
