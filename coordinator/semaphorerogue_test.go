package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALeaseOutOfTurnIsSeenInTime: somebody makes a lease between the look of the first in the queue and its transaction, as
// Curator's InterProcessSemaphoreV2 does whose session ended while it made one, and which asks again in the next. The first
// counts once more, gives way, and is let in when that lease is gone; so it does where the answer to its transaction is
// lost, and where the directory of the leases is not ours.
func TestALeaseOutOfTurnIsSeenInTime(t *testing.T) {
	const stray = semLeases + "/_c_00000000-0000-4000-8000-000000000000-lease-9999999999"
	for name, c := range map[string]struct {
		theirs bool
		lost   bool
		try    bool
	}{
		"in our directory": {}, "in theirs": {theirs: true}, "the answer is lost": {lost: true}, "a try": {try: true},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
				if c.theirs {
					for _, dir := range []string{semPath, semLeases} {
						if err := srv.Create(dir, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				first := take(t, s, 1)[0] // from here on the directories are there, and known
				first.Release()
				<-first.Done()
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op != zktest.OpMulti || len(r.Parts) < 3 || srv.Exists(stray) {
						return zktest.Pass()
					}
					if err := srv.Create(stray, nil); err != nil {
						t.Error(err)
					}
					if c.lost {
						return zktest.CutAfter()
					}
					return zktest.Pass()
				})
				var options []coordinator.AcquireOption
				if c.try {
					options = append(options, coordinator.Try())
				}
				a := s.Acquire(t.Context(), options...)
				time.Sleep(5 * time.Second)
				if got := srv.Children(semLeases); a.Valid() || len(got) != 1 || !strings.HasSuffix(stray, got[0]) {
					t.Fatalf("it holds: %v, beside %v", a.Valid(), got)
				}
				if c.try {
					wantEnd(t, a, coordinator.ErrNotAcquired)
					return
				}
				srv.Intercept(nil)
				if err := srv.Delete(stray); err != nil {
					t.Fatal(err)
				}
				coordtest.Soon(t, a)
				a.Release()
				<-a.Done()
				if got := srv.Children(semLeases); len(got) != 0 {
					t.Errorf("left: %v", got)
				}
			})
		})
	}
}
