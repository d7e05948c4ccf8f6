package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestNoSessionMovesAfterARollingRestart to the server that came up last: only sessions
// that had found no other server by then are there. All sessions survive, and so do their
// locks.
func TestNoSessionMovesAfterARollingRestart(t *testing.T) {
	if !eventstest.Full() {
		t.Skip("takes a minute: run it with ZKGRANT_FULL=1")
	}
	eventstest.NeedsServers(t)
	const sessions = 60
	e := ensemble.Start(t, 3)
	ctx := eventstest.Patiently(t, 5*time.Minute)
	held := map[int64]*coordinator.Acquisition{}
	all := map[int64]*coordinator.Coordinator{}
	for i := range sessions {
		c := connect(t, e.Connect(), 10*time.Second, 0)
		a, _ := coordtest.HoldReal(t, c.Mutex(fmt.Sprintf("/rolling/%d", i)))
		held[c.SessionID()], all[c.SessionID()] = a, c
	}
	leads, others := leader(t, e)
	for _, i := range append(others, leads) {
		kill(t, e, i)
		restart(t, e, i)
		eventstest.Must(t, e.Wait(ctx))
		for _, c := range all {
			happens(t, "each session is connected", func() bool { return c.State() == coordinator.StateConnected })
		}
		t.Logf("server %d is back: %v", i, sessionsOfEach(ctx, t, e))
	}
	then, late := time.Now(), sessionsOfEach(ctx, t, e)[leads]
	for time.Since(then) < 20*time.Second {
		if n := sessionsOfEach(ctx, t, e)[leads]; n > late {
			t.Fatalf("%d sessions have moved to the server that came up last, and none was to", n-late)
		}
		pause(ctx, time.Second)
	}
	for id, c := range all {
		if c.SessionID() != id || !held[id].Valid() {
			t.Errorf("session %#x, now %#x, holds its lock: %v; want the session and the lock of before",
				id, c.SessionID(), held[id].Valid())
		}
	}
}

// sessionsOfEach returns how many sessions each server has.
func sessionsOfEach(ctx context.Context, t *testing.T, e *ensemble.Ensemble) (all []int) {
	t.Helper()
	for i := range e.Size() {
		happens(t, "the server counts", func() bool { // a server that has just come up may hang up
			counted, err := e.Counters(ctx, i)
			if err == nil {
				all = append(all, int(counted["zk_num_alive_connections"])-1) // without the one for this request
			}
			return err == nil
		})
	}
	return all
}

// upgradeVariable lists the folders of releases in the order of the upgrade, like a
// search path. `make versions` sets it.
const upgradeVariable = "ZKGRANT_UPGRADE"

// TestServersAreUpgraded node by node, from release to release, the leader last, while
// sessions contend for locks. No lock is lost, no lock has two holders, and every
// contender is granted its lock again after each step.
func TestServersAreUpgraded(t *testing.T) {
	homes := filepath.SplitList(os.Getenv(upgradeVariable))
	if len(homes) < 2 {
		t.Skipf("needs releases of ZooKeeper: run it with `make versions`, which sets %s", upgradeVariable)
	}
	var releases []ensemble.Installation
	for _, home := range homes {
		t.Setenv("ZOOKEEPER_HOME", home)
		release, err := ensemble.Find()
		eventstest.Must(t, err)
		releases = append(releases, release)
	}
	ctx := eventstest.Patiently(t, 10*time.Minute)
	e, err := ensemble.Launch(ctx, releases[0], t.TempDir(), 3, ensemble.Tick(killedTick))
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, e.Close()) })
	t.Log(e)
	l := startLoad(t, e.Connect(), 10*time.Second)
	l.goesOn(t, "all servers run the first release")
	for _, release := range releases[1:] {
		var versions []string
		leads, others := leader(t, e)
		for _, i := range append(others, leads) {
			kill(t, e, i)
			e.Use(i, release)
			restart(t, e, i)
			up(t, e)
			l.goesOn(t, fmt.Sprintf("server %d runs %s", i, release.Origin))
			version, err := e.Version(ctx, i)
			eventstest.Must(t, err)
			versions = append(versions, version)
		}
		t.Logf("servers of %s, one after the other: %v", release.Origin, versions)
		one := slices.Max(versions) == slices.Min(versions)
		eventstest.Expect(t, one, "the servers run %v, want one version", versions)
	}
	cycles, lost := l.stop()
	eventstest.Expect(t, lost == 0, "%d of %d grants lost, want none", lost, cycles)
	reliability.Report(t, reliability.RowSpuriousLost, "rolling upgrade through %d releases: %d of %d grants lost", len(releases), lost, cycles)
}
