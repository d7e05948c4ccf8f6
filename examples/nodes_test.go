package examples_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// root is a top-level node for the programs of one test. It stays when it is empty.
type root struct {
	t    *testing.T
	conn *zk.Conn // a client of another project
	path string
}

// newRoot creates the node. servers has no chroot.
func newRoot(t *testing.T, servers, path string) root {
	t.Helper()
	at, err := program.Open(servers, 5*time.Second)
	eventstest.Must(t, err)
	conn, _, closed, err := at.Client()
	eventstest.Must(t, err)
	t.Cleanup(closed)
	_, err = conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	eventstest.Must(t, err)
	return root{t, conn, path}
}

// ephemerals returns the paths of the ephemeral nodes below the root, in any order:
// waiters and holders. The test fails if the root is gone.
func (r root) ephemerals() []string {
	r.t.Helper()
	found, err := below(r.conn, r.path)
	eventstest.Must(r.t, err)
	return found
}

// await waits until there are count ephemeral nodes below the chroot in the root, which
// need not exist yet.
func (r root) await(chroot string, count int) {
	r.t.Helper()
	at := r.path + chroot
	eventstest.Eventually(r.t, fmt.Sprintf("%d nodes of sessions are below %s", count, at), func() bool {
		found, err := below(r.conn, at)
		return err == nil && len(found) == count
	})
}

func below(conn *zk.Conn, path string) (found []string, _ error) {
	names, stat, err := conn.Children(path)
	if err != nil {
		return nil, err
	}
	if stat.EphemeralOwner != 0 {
		return []string{path}, nil
	}
	for _, name := range names {
		more, err := below(conn, path+"/"+name)
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // a child may be removed at any time
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}
