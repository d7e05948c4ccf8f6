package interop

import (
	"context"
	_ "embed"
	"os/exec"
	"sync"
	"testing"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// TestOneQueueWithGuests is TestOneQueue for the families that can share a path with some of zkgrant's forms only.
func TestOneQueueWithGuests(t *testing.T) {
	t.Parallel()
	same := func(f family, name form) team {
		return team{family: f, forms: times(4, name), killed: []form{name}}
	}
	both := team{
		family: zkgrant, forms: times(2, formWriteKazoo, formReadKazoo), killed: []form{formWriteKazoo, formReadKazoo},
	}
	for _, w := range played([]workload{
		{name: "mutex in kazoo's form, kazoo's", tier: quick, teams: []team{
			same(kazoo, formLock), same(zkgrant, formMutexKazoo),
		}},
		{name: "mutex in kazoo's form, beside kazoo's", teams: []team{same(zkgrant, formMutexKazoo), same(kazoo, formLock)}},
		{name: "read and write in kazoo's form, kazoo's", teams: []team{same(kazoo, formWrite), both}},
		{name: "read and write in kazoo's form, beside kazoo's", teams: []team{both, same(kazoo, formWrite)}},
		// Kazoo's readers get nowhere while writers keep coming: see TestKazoosReaderWaitsForLaterWriters.
		{name: "readers in kazoo's form, beside kazoo's", teams: []team{
			{family: kazoo, forms: times(4, formReadAgain), killed: []form{formReadAgain}},
			{family: zkgrant, forms: times(2, formReadKazoo)},
			{family: zkgrant, forms: times(2, formWriteKazoo), killed: []form{formWriteKazoo}, seldom: 20},
		}},
		{name: "mutex, kazoo's with a pattern", teams: []team{same(kazoo, formLockExtra), same(zkgrant, formMutex)}},
		{name: "mutex, beside kazoo's with a pattern", teams: []team{same(zkgrant, formMutex), same(kazoo, formLockExtra)}},
		{name: "read and write, beside kazoo's with patterns", teams: []team{
			{
				family: zkgrant, forms: []form{formDowngrade, formRead, formWrite, formRead},
				killed: []form{formDowngrade, formRead},
			},
			same(kazoo, formLockAll),
		}},
		{name: "mutex, WriteLock's", tier: quick, teams: []team{same(writeLock, formWriteLock), same(zkgrant, formMutex)}},
		{name: "mutex, beside WriteLock's", teams: []team{same(zkgrant, formMutex), same(writeLock, formWriteLock)}},
	}) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			enter(t).play(t, w).report(t)
		})
	}
}

// TestWaitingBehind: zkgrant's contenders share a path with a family that does not see them. Contenders of that family enter beside any
// holder. A contender of zkgrant is never inside beside an older one.
func TestWaitingBehind(t *testing.T) {
	t.Parallel()
	same := func(f family, name form) team {
		return team{family: f, forms: times(4, name), killed: []form{name}}
	}
	// In the first workload they find a directory of ours, in the others a foreign one.
	both := team{family: zkgrant, forms: times(2, formWrite, formRead), killed: []form{formWrite, formRead}}
	for _, w := range played([]workload{
		{name: "mutex, beside kazoo's", tier: quick, blind: kazoo, teams: []team{same(zkgrant, formMutex), same(kazoo, formLock)}},
		{name: "read and write, kazoo's", blind: kazoo, teams: []team{same(kazoo, formWrite), both}},
		{name: "read and write, WriteLock's", blind: writeLock, teams: []team{same(writeLock, formWriteLock), both}},
	}) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := enter(t).play(t, w)
			g.report(t)
			if g.referee.ignored == 0 {
				t.Errorf("%s was never inside beside a holder of zkgrant's; want at least once, so that zkgrant has waited behind it", w.blind)
			}
		})
	}
}

//go:embed player.py
var pythonPlayer string

//go:embed WriteLocks.java
var javaWriteLocks string

// guests are the commands of the families that can share a path with few others.
type guests struct {
	python sync.Once
	kazoo  peers.Kazoo
	kerr   error

	java sync.Once
	jvm  peers.Curator
	jerr error
}

// guest is command for one of the guests.
func (a *arena) guest(tb testing.TB, f family, args []string) *exec.Cmd {
	tb.Helper()
	g := &a.guests
	if f == kazoo {
		g.python.Do(func() { g.kazoo, g.kerr = peers.FindKazoo(context.Background()) })
		if g.kerr != nil {
			tb.Fatal(g.kerr)
		}
		return g.kazoo.Command(pythonPlayer, args...)
	}
	_ = a.command(tb, curator, longSession) // the player is Curator's
	g.java.Do(func() { g.jvm, g.jerr = a.compileWriteLocks(context.Background()) })
	if g.jerr != nil {
		tb.Fatal(g.jerr)
	}
	return lean(g.jvm.Command(a.folder, javaClass, args...))
}

// compileWriteLocks adds the class with which the player in Java plays WriteLock.
func (a *arena) compileWriteLocks(ctx context.Context) (peers.Curator, error) {
	jar, err := peers.FindWriteLock()
	if err != nil {
		return peers.Curator{}, err
	}
	found := a.jvm.With(jar)
	return found, found.With(a.folder).Compile(ctx, a.folder, "WriteLocks", javaWriteLocks)
}
