package interop

import (
	"context"
	_ "embed"
	"os/exec"
	"sync"
	"testing"

	"github.com/zkgrant/zkgrant/bench/peers"
)

//go:embed player.py
var pythonPlayer string

//go:embed WriteLocks.java
var javaWriteLocks string

// guests are how the families are run that can share a path with few others.
type guests struct {
	python sync.Once
	kazoo  peers.Kazoo
	kerr   error

	java sync.Once
	jvm  peers.Curator
	jerr error
}

// guest is command for one of them.
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
	_ = a.command(tb, curator, longSession) // the player is the same, and it is Curator's
	g.java.Do(func() { g.jvm, g.jerr = a.compileWriteLocks(context.Background()) })
	if g.jerr != nil {
		tb.Fatal(g.jerr)
	}
	return lean(g.jvm.Command(a.folder, javaClass, args...))
}

// compileWriteLocks adds the class with which the player in Java plays WriteLock, too.
func (a *arena) compileWriteLocks(ctx context.Context) (peers.Curator, error) {
	jar, err := peers.FindWriteLock()
	if err != nil {
		return peers.Curator{}, err
	}
	found := a.jvm.With(jar)
	return found, found.With(a.folder).Compile(ctx, a.folder, "WriteLocks", javaWriteLocks)
}
