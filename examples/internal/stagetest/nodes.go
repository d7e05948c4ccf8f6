package stagetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// Ephemerals returns the paths of the ephemeral nodes below root, in any order: waiters
// and holders. It lists them with a client of another project. servers has no chroot. If
// root does not exist, the test fails.
func Ephemerals(tb testing.TB, servers, root string) []string {
	tb.Helper()
	found, there := look(tb, servers, root)
	if !there {
		tb.Fatalf("there is no %s: want the parent of the nodes to look for", root)
	}
	return found
}

// MakeRoot creates a top-level node that is not removed when it is empty.
func MakeRoot(tb testing.TB, servers, root string) {
	tb.Helper()
	conn, closed := dial(tb, servers)
	defer closed()
	if _, err := conn.Create(root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		tb.Fatalf("making %s: %v", root, err)
	}
}

// dial connects a client of another project. The caller must call closed.
func dial(tb testing.TB, servers string) (conn *zk.Conn, closed func()) {
	tb.Helper()
	at, err := program.Open(servers, 5*time.Second)
	eventstest.Must(tb, err)
	conn, _, closed, err = at.Client()
	eventstest.Must(tb, err)
	return conn, closed
}

// look is Ephemerals, but reports whether root exists instead of failing the test.
func look(tb testing.TB, servers, root string) (found []string, there bool) {
	tb.Helper()
	conn, closed := dial(tb, servers)
	defer closed()
	var err error
	if there, _, err = conn.Exists(root); err == nil {
		found, err = below(conn, root)
	}
	if err != nil {
		tb.Fatalf("looking at %s: %v", root, err)
	}
	return found, there
}

// AwaitEphemerals waits until root has count ephemeral nodes below it.
func AwaitEphemerals(tb testing.TB, servers, root string, count int) {
	tb.Helper()
	eventstest.Eventually(tb, fmt.Sprintf("%d nodes of sessions are below %s", count, root), func() bool {
		found, _ := look(tb, servers, root)
		return len(found) == count
	})
}

func below(conn *zk.Conn, path string) (found []string, _ error) {
	names, stat, err := conn.Children(path)
	switch {
	case errors.Is(err, zk.ErrNoNode): // the root may be removed at any time
		return nil, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner != 0:
		return []string{path}, nil
	}
	for _, name := range names {
		more, err := below(conn, path+"/"+name)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}
