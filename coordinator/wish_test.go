package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTheHolderReadsTheNewestWish: Revoked has room for one wish. The sooner one takes the place of one that nobody has read, and
// Deadline is no later than it. A release answers the wish, and one that nobody has read is not there any more.
func TestTheHolderReadsTheNewestWish(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playWishes(t, onTheDouble(t, srv), lock) })
		})
	}
}

// TestRealTheHolderReadsTheNewestWish is the same on a real server.
func TestRealTheHolderReadsTheNewestWish(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) { playWishes(t, onARealServer(t), lock) })
	}
}

func playWishes(t *testing.T, s *site, lock func(*coordinator.Coordinator) acquirer) {
	t.Helper()
	ctx := coordtest.RealContext(t)
	operator := s.connect()
	a := lock(s.connect()).Acquire(ctx)
	coordtest.GrantOf(t, a)
	lease := time.Now().Add(timeoutOfAll)

	far := revoking(ctx, operator, 2*time.Hour)
	if wish := eventstest.Receive(t, a.Revoked(), "the first wish"); wish.ID != a.ID() || wish.Path != lockPath || wish.Deadline.Before(lease) {
		t.Errorf("the first wish is %+v, want %d, %s and in two hours", wish, a.ID(), lockPath)
	}
	nearer := revoking(ctx, operator, time.Hour)
	eventstest.Eventually(t, "a second wish to be read", func() bool { return len(a.Revoked()) == 1 })
	// It is less than the lease has left, so Deadline tells when the holder has heard of it, and more than the test takes.
	const soon = timeoutOfAll * 3 / 4
	soonest := revoking(ctx, operator, soon)
	said := time.Now()
	eventstest.Eventually(t, "a third wish, in less than the lease", func() bool {
		deadline := a.Deadline()
		time.Sleep(time.Millisecond)
		return a.Deadline().Equal(deadline) && deadline.Before(said.Add(soon+timeoutOfAll/10))
	}, func() string { return fmt.Sprint("Deadline is in ", time.Until(a.Deadline())) })
	wish := eventstest.Receive(t, a.Revoked(), "the third wish")
	if !wish.Deadline.Equal(a.Deadline()) {
		t.Errorf("behind three wishes, of which one was read, Revoked has %v, want the Deadline, %v", wish.Deadline, a.Deadline())
	}
	if n := len(a.Revoked()); n != 0 {
		t.Errorf("%d wishes are left when the newest was read, want none", n)
	}
	unread := revoking(ctx, operator, soon/2)
	eventstest.Eventually(t, "a fourth wish to be read", func() bool { return len(a.Revoked()) == 1 })
	a.Release()
	if n := len(a.Revoked()); n != 0 {
		t.Errorf("%d wishes can be read behind Release, want none", n)
	}
	for i, done := range []<-chan error{far, nearer, soonest, unread} {
		if err := eventstest.Receive(t, done, "the end of Revoke"); err != nil {
			t.Errorf("Revoke %d of a lock that was released in time: %v, want nil", i, err)
		}
	}
}
