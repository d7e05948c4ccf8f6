package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// order is an order to a worker, and news is a worker's report: see worker/main.go.
type order struct{ ID, Do, Kind, Path string }

type news struct {
	ID, What, Data, Error string
	Token, Abandoned      int64
}

const (
	// timeout is for sessions that must live.
	timeout = 10 * time.Second
	// brief is for sessions of processes that are killed.
	brief = time.Second
)

// fleet is the processes of two versions, and their referee.
type fleet struct {
	t        *testing.T
	servers  string
	root     string            // the parent of this fleet's locks
	inside   string            // the folder of the referee
	programs map[string]string // by version
	raw      *zk.Conn
}

// The versions of a fleet.
const (
	before = "before"
	after  = "after"
)

// worker is a process.
type worker struct {
	*child.Child
	t     *testing.T
	name  string
	heard []news // news that hear has not returned yet
}

func (f *fleet) start(version, name string, timeout time.Duration) *worker {
	f.t.Helper()
	cmd := exec.CommandContext(context.Background(), f.programs[version], //nolint:gosec // the program was built by the test
		"-name", name, "-inside", f.inside, "-servers", f.servers, "-timeout", timeout.String())
	c := child.Run(f.t, name, cmd, nil)
	w := &worker{Child: c, t: f.t, name: name}
	w.hear("", "ready")
	return w
}

func (w *worker) tell(o order) {
	w.t.Helper()
	eventstest.Must(w.t, w.Tell(o))
}

// hear waits for news. It hangs up on a worker that is silent for very long.
func (w *worker) hear(id, what string) news {
	w.t.Helper()
	for i, n := range w.heard {
		if n.ID == id && n.What == what {
			w.heard = slices.Delete(w.heard, i, i+1)
			return n
		}
	}
	for {
		var n news
		if err := w.Hear(&n); err != nil {
			w.t.Fatalf("waiting for %q of %s to be %s: %v; it told %+v", id, w.name, what, err, w.heard)
		}
		if n.ID == id && n.What == what {
			return n
		}
		w.heard = append(w.heard, n)
		if n.ID == id && n.What == "done" {
			w.t.Fatalf("%s told %+v, want %q to be %s first", w.name, w.heard, id, what)
		}
	}
}

// releases releases the lock, and waits for the end.
func (w *worker) releases(id string) {
	w.t.Helper()
	w.tell(order{ID: id, Do: "release"})
	w.over(id)
}

// over waits until the acquisition has ended by a release, without a loss.
func (w *worker) over(id string) {
	w.t.Helper()
	n := w.hear(id, "done")
	eventstest.Expect(w.t, n.Error == "", "%s: %s ended with %q, want it released", w.name, id, n.Error)
	for _, n := range w.heard {
		eventstest.Expect(w.t, n.ID != id || n.What != "lost",
			"%s: %s was lost (%s), want it held until its release", w.name, id, n.Error)
	}
}

// empty waits until no session has a node below the path, and no record is left.
func (f *fleet) empty(at string) {
	f.t.Helper()
	var left []string
	eventstest.Eventually(f.t, "nothing is left below "+at, func() bool {
		left = f.left(at)
		return len(left) == 0
	}, func() string { return fmt.Sprint("left is ", left) })
}

// left lists the nodes of sessions, and the records, at and below a path.
func (f *fleet) left(at string) (left []string) {
	f.t.Helper()
	names, stat, err := f.raw.Children(at)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	eventstest.Must(f.t, err)
	if ephemeral := stat.EphemeralOwner != 0 && stat.EphemeralOwner != containerOwner; ephemeral || strings.HasSuffix(at, ".holder") {
		left = append(left, at)
	}
	for _, name := range names {
		left = append(left, f.left(path.Join(at, name))...)
	}
	return left
}

// containerOwner is the owner that a server reports for a container node.
const containerOwner = -1 << 63

// grant is a line that a worker wrote while it held the lock.
type grant struct {
	name, kind string
	token      int64
	turn       uint64
}

// grants reads the lines written for a lock, in the order of the grants.
func (f *fleet) grants(lock string) (all []grant) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.inside, strings.ReplaceAll(strings.Trim(lock, "/"), "/", "-")+".grants"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	eventstest.Must(f.t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // a worker is about to write the rest
		}
		var g grant
		if _, err := fmt.Sscan(line, &g.name, &g.kind, &g.token, &g.turn); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, g)
	}
	return all
}
