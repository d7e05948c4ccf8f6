package zktest

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// apacheTick is the tick of the real server, and of the double in the script. It is
// short, so that sessions end soon.
const apacheTick = 500 * time.Millisecond

// superuser may delete every node of a real server, regardless of its access list.
const superuser = "super:secret"

// TestRealServer plays the script to Apache ZooKeeper, so that the double cannot drift
// from it. The whole script needs two servers. The files that need no features are a
// smoke test, which runs if a server is found.
//
//nolint:tparallel // the files share servers
func TestRealServer(t *testing.T) {
	t.Parallel() // it waits for servers most of the time
	plain := startApache(t)
	var featured *ensemble.Ensemble
	pick := func(file *testing.T, features []string) *ensemble.Ensemble { //nolint:thelper // t outlasts the file
		if len(features) == 0 {
			return plain
		}
		eventstest.NeedsServersEachTime(file)
		if featured == nil {
			featured = startApache(t, ensemble.Property("zookeeper.extendedTypesEnabled", "true"),
				ensemble.Property("zookeeper.enforceQuota", "true"))
		}
		return featured
	}
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		return play(t, file, &apache{pick: pick})
	})
}

// startApache starts a real server for the test and its subtests, with the double's tick
// and interval for container checks.
func startApache(t *testing.T, features ...ensemble.Setting) *ensemble.Ensemble {
	t.Helper()
	return ensemble.Start(t, 1, append(features,
		ensemble.Tick(apacheTick), ensemble.Property("znode.container.checkIntervalMs", "200"),
		ensemble.Property("zookeeper.DigestAuthenticationProvider.superDigest", digest([]byte(superuser)).id))...)
}

// apache is a real server that several files share. Each file leaves it empty.
type apache struct {
	pick   func(file *testing.T, features []string) *ensemble.Ensemble
	server *ensemble.Ensemble
}

func (a *apache) start(t *testing.T, features []string) string {
	t.Helper()
	a.server = a.pick(t, features)
	version, err := a.server.Version(t.Context(), 0)
	eventstest.Must(t, err)
	return version
}

func (a *apache) dial() (net.Conn, error) { return net.Dial("tcp", a.server.Addr(0)) }

// end ends the sessions that the script has left, deletes its nodes, and waits until the
// server has no client.
func (a *apache) end(t *testing.T, p *player) {
	t.Helper()
	p.hangUp()
	if a.server == nil {
		return // the file was skipped
	}
	for session, password := range p.granted {
		r := rawTCP(t, a.server.Addr(0))
		r.write(frame(greeting(0, ticket{10_000, session, password})))
		// The server hangs up on a session that has ended, or grants none.
		if body, err := r.receive(); err == nil {
			if _, got, _ := decodeTicket(body); got.session != 0 {
				r.can(OpClose, nil, ok)
			}
		}
		eventstest.Check(t, r.Close())
	}
	r := rawTCP(t, a.server.Addr(0))
	r.hello(ticket{timeout: 10_000})
	r.can(OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), []byte(superuser)), ok)
	sweep(r, "/")
	r.can(OpClose, nil, ok)
	eventstest.Check(t, r.Close())
	eventstest.Eventually(t, "the real server has no client", func() bool {
		counters, err := a.server.Counters(context.Background(), 0)    // the test's context has ended
		return err == nil && counters["zk_num_alive_connections"] == 1 // the connection that queries it
	})
}

// sweep deletes every node below dir that the server was not started with, deepest first.
func sweep(r *rawClient, dir string) {
	r.tb.Helper()
	list := r.call(OpGetChildren, about(dir, false))
	if list.code == NoNode { // a container that was removed meanwhile
		return
	}
	for _, name := range list.body.strings() {
		path := strings.TrimSuffix(dir, "/") + "/" + name
		if sweep(r, path); reserved(path) {
			continue
		}
		if code := r.call(OpDelete, versioned(path, -1)).code; code != ok && code != NoNode {
			r.tb.Errorf("deleting %s: %v", path, code)
		}
	}
}
