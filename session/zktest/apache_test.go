package zktest

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// apacheTick is the tick of a real server and of the double in the script. It is short, so that sessions end soon.
const apacheTick = 500 * time.Millisecond

// superuser may delete every node of a real server, whatever its access list says.
const superuser = "super:secret"

// StartApache starts a real server for the test and its subtests, with what the script calls features or without. Its ticks and
// its checks of the containers are those of the double.
func StartApache(t *testing.T, features bool) *ensemble.Ensemble {
	t.Helper()
	settings := []ensemble.Setting{
		ensemble.Tick(apacheTick), ensemble.Property("znode.container.checkIntervalMs", "200"),
		ensemble.Property("zookeeper.DigestAuthenticationProvider.superDigest", digest([]byte(superuser)).id),
	}
	if features {
		settings = append(settings,
			ensemble.Property("zookeeper.extendedTypesEnabled", "true"), ensemble.Property("zookeeper.enforceQuota", "true"))
	}
	return ensemble.Start(t, 1, settings...)
}

// PlayOnApache plays the script to real servers. The files that need features go to featured, which is called when the first of
// them is played. The others go to plain.
func PlayOnApache(t *testing.T, plain *ensemble.Ensemble, featured func(*testing.T) *ensemble.Ensemble) {
	t.Helper()
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		return play(t, file, &apache{pick: func(features []string) *ensemble.Ensemble {
			if len(features) > 0 {
				return featured(t)
			}
			return plain
		}})
	})
}

// apache is a real server that several files share. Each file leaves it empty.
type apache struct {
	pick   func(features []string) *ensemble.Ensemble
	server *ensemble.Ensemble
}

func (a *apache) start(t *testing.T, features []string) string {
	t.Helper()
	a.server = a.pick(features)
	version, err := a.server.Version(t.Context(), 0)
	eventstest.Must(t, err)
	return version
}

func (a *apache) dial() (net.Conn, error) { return net.Dial("tcp", a.server.Addr(0)) }

// end ends the sessions that the script has left, deletes its nodes, and waits until the server has no client.
func (a *apache) end(t *testing.T, p *player) {
	t.Helper()
	p.hangUp()
	if a.server == nil {
		return // the file was skipped
	}
	for session, password := range p.granted {
		if err := a.bury(t, session, password); err != nil {
			t.Errorf("ending session %#x: %v", session, err)
		}
	}
	if err := sweep(a.server.Addr(0)); err != nil {
		t.Errorf("emptying the server: %v", err)
	}
	eventstest.Eventually(t, "the real server has no client", func() bool {
		counters, err := a.server.Counters(context.Background(), 0)    // the test's context has ended
		return err == nil && counters["zk_num_alive_connections"] == 1 // the connection that asks
	})
}

// bury closes a session, if it has not ended.
func (a *apache) bury(t *testing.T, session int64, password []byte) error {
	t.Helper()
	nc, err := a.dial()
	if err != nil {
		return err
	}
	l := newLine(t, nc)
	defer l.Close()
	hello := appendBytes(appendInt64(appendInt32(appendInt64(appendInt32(nil, 0), 0), 10000), session), password)
	if _, err := l.Write(frame(hello)); err != nil {
		return err
	}
	body, err := l.next()
	if err != nil {
		return nil // the server hangs up on a session that has ended
	}
	d := &decoder{buf: string(body)}
	if d.int32(); d.int32() == 0 {
		return nil // it has ended
	}
	if _, err := l.Write(frame(appendInt32(appendInt32(nil, 1), int32(OpClose)))); err != nil {
		return err
	}
	_, err = l.next()
	return err
}

// sweep deletes every node that the server was not started with.
func sweep(addr string) error {
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		return net.DialTimeout(network, address, timeout)
	}
	conn, events, err := zk.Connect([]string{addr}, 20*apacheTick, zk.WithDialer(dial), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		for range events { // until the client's goroutines are done
		}
	}()
	if err := conn.AddAuth("digest", []byte(superuser)); err != nil {
		return err
	}
	return deleteBelow(conn, "/")
}

// deleteBelow deletes the nodes below dir, the deepest first.
func deleteBelow(conn *zk.Conn, dir string) error {
	names, _, err := conn.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, name := range names {
		path := strings.TrimSuffix(dir, "/") + "/" + name
		if err := deleteBelow(conn, path); err != nil {
			return err
		}
		if slices.Contains([]string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"}, path) {
			continue
		}
		if err := conn.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) { // a container may be reaped meanwhile
			return err
		}
	}
	return nil
}
