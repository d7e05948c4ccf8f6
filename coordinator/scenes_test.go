package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// testdata/scenes has what callers of each kind of lock see of each other and of faults.

func TestAcquireScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/acquire") }
func TestLossScenes(t *testing.T)      { coordtest.Scenes(t, "testdata/scenes/loss") }
func TestCloseScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/close") }
func TestReentryScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/reentry") }
func TestCrashScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/crash") }
func TestRevokeScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/revoke") }
func TestSemaphoreScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/semaphore.txt") }
func TestReadWriteScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/readwrite.txt") }
func TestMultiScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/multi") }
func TestUnfairScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/unfair") }
func TestElectionScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/election.txt") }
func TestObserverScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/observe.txt") }
func TestKazooScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/kazoo.txt") }

// TestRealScenes plays the scenes on a real server, as far as it can play them.
func TestRealScenes(t *testing.T) {
	eventstest.NeedsServersEachTime(t)
	coordtest.RealScenes(t, ensemble.Start(t, 1), "testdata/scenes")
}

// TestEachKindKeepsItsPromises plays the scenes with the promises of every kind of lock.
func TestEachKindKeepsItsPromises(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/kinds") }

// TestAsKazoo: names and the directory's lifetime are kazoo's; all else is the same.
func TestAsKazoo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		kazoo := coordinator.AsKazoo()
		rw := func(c *coordinator.Coordinator) *coordinator.ReadWrite { return c.ReadWrite("/as/kazoo/rw", kazoo) }
		for form, locks := range map[string][2]*coordinator.Lock{
			`[0-9a-f]{32}__lock__\d{10}()$`: {a.Mutex("/as/kazoo/mutex", kazoo), b.Mutex("/as/kazoo/mutex", kazoo)},
			`[0-9a-f]{32}__lock__\d{10}$`:   {rw(a).Write(), rw(b).Write()},
			`[0-9a-f]{32}__rlock__\d{10}$`:  {rw(a).Read(), rw(b).Write()},
		} {
			first, grant := coordtest.Hold(t, locks[0])
			second := coordtest.Queue(locks[1])
			name := path.Base(grant.Node)
			expect(t, regexp.MustCompile("^"+form).MatchString(name), "the name is %s, want %s", name, form)
			expect(t, !second.Valid(), "%s: the second holds beside the first", form)
			data, _ := srv.Data(grant.Node)
			expect(t, data != nil, "%s has no data, and kazoo does not show it then", grant.Node)
			first.Release()
			g := coordtest.Soon(t, second)
			expect(t, g.Token > grant.Token, "%s: token %d after %d, want a greater one", form, g.Token, grant.Token)
			coordtest.End(second)
			synctest.Wait()
			srv.Reap()
			expect(t, srv.Exists(locks[0].Path()), "%s was removed when it was empty", locks[0].Path())
		}
	})
}

// nested takes a lock deep times, each time with the context of the acquisition before.
func nested(t *testing.T, l *coordinator.Lock, deep int) []*coordinator.Acquisition {
	t.Helper()
	var all []*coordinator.Acquisition
	ctx := context.Background()
	for range deep {
		a := l.Acquire(ctx)
		coordtest.Soon(t, a)
		all, ctx = append(all, a), a.Context(ctx)
	}
	return all
}

// realReentry reenters a lock on a real server: a thousand acquisitions cost the server
// the requests of one.
func realReentry(t *testing.T, e *ensemble.Ensemble) {
	const many, hands, stray = 1000, 8, 10 // stray: pings, probes, and the watch on a node that is held for long
	lock := coordtest.ConnectReal(t, e.Connect()).Mutex("/locks/again", coordinator.Reentrant())
	outer := lock.Acquire(t.Context())
	grant, ctx := coordtest.GrantOf(t, outer), outer.Context(t.Context())
	cost := coordtest.RealToll(t, e, func() {
		var wait sync.WaitGroup
		for range hands {
			wait.Go(func() {
				for range many / hands {
					a := lock.Acquire(ctx)
					again, err := a.Wait(t.Context())
					expect(t, err == nil && again.Node == grant.Node && again.Token == grant.Token,
						"entered again, it is granted %+v, %v; want the node and the token of %+v", again, err, grant)
					coordtest.End(a)
				}
			})
		}
		wait.Wait()
	})
	expect(t, cost.Packets <= stray && cost.Woken == 0,
		"entered %d times, the server counts %+v; want at most %d requests, and nothing woken", many, cost, stray)
	coordtest.End(outer)
}

// TestALockIsLostWhileItIsEnteredAgain: goroutines reenter a held lock again and again
// while its node is removed. No acquisition receives a loss without a Grant, all of them
// end, and Close returns.
func TestALockIsLostWhileItIsEnteredAgain(t *testing.T) {
	forEach(t, map[string][]coordinator.LockOption{
		"mutex": {coordinator.Reentrant()}, "cached": {coordinator.Reentrant(), coordinator.Cached()},
	}, func(t *testing.T, srv *zktest.Server, options []coordinator.LockOption) {
		c := coordtest.Connect(t, srv)
		for round := range 200 {
			lock := c.Mutex(fmt.Sprint("/locks/", round), options...)
			outer, grant := coordtest.Hold(t, lock)
			ctx := outer.Context(context.Background())
			time.Sleep(3 * time.Second) // from then on the node is watched
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						a := lock.Acquire(ctx)
						_, _ = a.Wait(context.Background())
						coordtest.End(a)
						if len(a.Lost()) > 0 {
							lost := <-a.Lost()
							expect(t, lost.Token == grant.Token, "%+v, want no loss, or that of %+v", lost, grant)
						}
					}
				})
			}
			eventstest.Must(t, srv.Delete(grant.Node))
			wg.Wait()
			<-outer.Done()
		}
		eventstest.Must(t, c.Close())
	})
}
