package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
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
	operator, c := s.connect(), s.connect()
	stream := c.Events(ctx)
	a := lock(c).Acquire(ctx)
	coordtest.GrantOf(t, a)
	var revokes []<-chan error
	revoke := func(grace time.Duration) (told events.Revoked) {
		t.Helper()
		revokes = append(revokes, revoking(ctx, operator, grace))
		for ok := false; !ok; {
			told, ok = eventstest.Receive(t, stream, "the wish on the stream").(events.Revoked)
		}
		if deadline := a.Deadline(); deadline.After(told.Deadline) { // and it is in the channel by now
			t.Errorf("asked to give the lock back within %v Deadline is %v, want none behind %v", grace, deadline, told.Deadline)
		}
		return told
	}
	wantRead := func(when string, want events.Revoked) {
		t.Helper()
		select {
		case got := <-a.Revoked():
			if got != want {
				t.Errorf("%s Revoked has %+v, want %+v", when, got, want)
			}
		default:
			t.Errorf("%s nothing can be read from Revoked, want %+v", when, want)
		}
		if n := len(a.Revoked()); n != 0 {
			t.Errorf("%s %d wishes can be read behind it, want none", when, n)
		}
	}
	wantRead("behind a first wish", revoke(2*time.Hour))
	revoke(time.Hour)
	wantRead("behind two that nobody has read", revoke(timeoutOfAll/2))
	revoke(timeoutOfAll / 4)
	a.Release()
	if n := len(a.Revoked()); n != 0 {
		t.Errorf("%d wishes can be read behind Release, want none", n)
	}
	for i, done := range revokes {
		if err := eventstest.Receive(t, done, "the end of Revoke"); err != nil {
			t.Errorf("Revoke %d of a lock that was released in time: %v, want nil", i, err)
		}
	}
}
