package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// raisedEpoch is larger than any epoch that an ensemble reaches in a test.
const raisedEpoch = 40

// TestABackupIsRestored returns an ensemble's servers to an older state while processes
// hold locks. The servers stay down until the leases have run out, so there are never two
// holders, and the processes recover by themselves. Tokens go back with the data, and
// grow again after acceptedEpoch was raised. A session in the backup again has the node
// of a lock that it has released since: the lock is free once that process has ended.
// docs/production.md says what operators must do.
func TestABackupIsRestored(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const timeout, long = 3 * time.Second, 10 * time.Second
	e := ensemble.Start(t, eventstest.Amount(2, 3), ensemble.Tick(killedTick))
	const free, kept = "/locks/free", "/locks/kept"
	old := connect(t, e.Connect(), long, killedTick) // its session is in the backup, and outlives the whole test
	b, inBackup := coordtest.HoldReal(t, old.Mutex(kept))

	kill(t, e, everyServer(e)...)
	backup := make([]string, e.Size())
	for i := range backup {
		backup[i] = filepath.Join(t.TempDir(), "data")
		eventstest.Must(t, os.CopyFS(backup[i], os.DirFS(e.DataDir(i))))
	}
	restart(t, e, everyServer(e)...)
	up(t, e)
	session := old.SessionID()
	coordtest.End(b)
	holder := connect(t, e.Connect(), timeout, killedTick)
	a, _ := coordtest.HoldReal(t, holder.Mutex(kept)) // so the servers have executed the release
	coordtest.End(a)
	for range 20 {
		a, _ = coordtest.HoldReal(t, holder.Mutex(free))
		coordtest.End(a)
	}
	held, latest := coordtest.HoldReal(t, holder.Mutex(free))

	kill(t, e, everyServer(e)...)
	eventstest.Receive(t, held.Lost(), "the loss of the lock, with no server to be had")
	for i, data := range backup {
		eventstest.Must(t, os.RemoveAll(e.DataDir(i)))
		eventstest.Must(t, os.CopyFS(e.DataDir(i), os.DirFS(data)))
	}
	restart(t, e, everyServer(e)...)
	up(t, e)
	next := connect(t, e.Connect(), timeout, killedTick)
	a, back := coordtest.HoldReal(t, next.Mutex(free)) // at once, because the lock has no holder in the backup
	eventstest.Expect(t, back.Token <= latest.Token, "after the backup, with its epochs, the token is %#x "+
		"and was %#x: it does not go back, though docs/production.md says so", back.Token, latest.Token)
	eventstest.Expect(t, !held.Valid(), "the holder from before is valid: two holders")
	coordtest.End(a)

	kill(t, e, everyServer(e)...)
	for i := range backup {
		file := filepath.Join(e.DataDir(i), "version-2", "acceptedEpoch")
		eventstest.Must(t, os.WriteFile(file, []byte(strconv.Itoa(raisedEpoch)), 0o600))
	}
	restart(t, e, everyServer(e)...)
	up(t, e)
	a, grown := coordtest.HoldReal(t, next.Mutex(free))
	if grown.Token <= latest.Token || grown.Token>>32 <= raisedEpoch { // the servers may elect a leader more than once
		t.Errorf("the token is %#x and was %#x before the backup was restored; want it greater, and more than %d as its epoch", grown.Token, latest.Token, raisedEpoch)
	}
	coordtest.End(a)
	a, again := coordtest.HoldReal(t, holder.Mutex(free))
	eventstest.Expect(t, again.Token > grown.Token,
		"the process that held has token %#x after %#x, want it greater", again.Token, grown.Token)
	coordtest.End(a)

	happens(t, "the session of the backup has a connection", func() bool { return old.State() == coordinator.StateConnected })
	if now := old.SessionID(); now != session {
		t.Logf("not judged, because the servers took long to start: the session of the backup, %#x, was given up, and now there is %#x", session, now)
		return
	}
	queue, err := next.Mutex(kept).Queue(patiently(t))
	if err != nil || len(queue) != 1 || !queue[0].Holding || queue[0].Token != inBackup.Token {
		t.Errorf("%s has the contenders %+v, %v; want the one of token %#x, which has released", kept, queue, err, inBackup.Token)
	}
	heir := next.Mutex(kept).Acquire(t.Context())
	eventstest.Check(t, old.Close())
	if g, err := heir.Wait(patiently(t)); err != nil || g.Token <= grown.Token {
		t.Errorf("when the process of the backup's holder has ended: granted %+v, %v; want a token greater than %#x", g, err, grown.Token)
	}
}
