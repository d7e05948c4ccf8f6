package peers

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestWhereJarsAreLookedFor: only in the given folder if there is one; otherwise in the
// system's folder, then in the project.
func TestWhereJarsAreLookedFor(t *testing.T) {
	t.Parallel()
	home, system, deps, nothing := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for file, folder := range map[string]string{"lib-3.9.3.jar": home, "lib.jar": system} {
		eventstest.Must(t, os.WriteFile(filepath.Join(folder, file), nil, 0o600))
	}
	eventstest.Must(t, os.WriteFile(filepath.Join(deps, "lib.jar"), nil, 0o600))
	for _, c := range []struct{ name, home, system, deps, want string }{
		{"all there: the one asked for", home, system, deps, home + "/lib-3.9.3.jar"},
		{"installed", "", system, deps, system + "/lib.jar"},
		{"unpacked", "", nothing, deps, deps + "/lib.jar"},
		{"nowhere", "", nothing, nothing, ""},
		{"no project", "", nothing, "", ""},
		{"another one than asked for", nothing, system, deps, ""},
	} {
		if jar, err := findJar("lib", c.home, c.system, c.deps); jar != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: found %q, %v; want %q", c.name, jar, err, c.want)
		}
	}
}

func TestFindCurator(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CURATOR_HOME", home)
	zookeeper := ensemble.Installation{Java: "/jre/bin/java", Classpath: []string{"/zookeeper/*"}}
	_, err := FindCurator(zookeeper)
	eventstest.ErrorIs(t, err, ErrNotFound, "in an empty folder")
	recipes := filepath.Join(home, "curator-recipes.jar")
	out, err := os.Create(recipes)
	eventstest.Must(t, err)
	archive := zip.NewWriter(out)
	properties, err := archive.Create("META-INF/maven/org.apache.curator/curator-recipes/pom.properties")
	eventstest.Must(t, err)
	_, err = properties.Write([]byte("#Generated\ngroupId=org.apache.curator\nversion=5.4.0\n"))
	eventstest.Must(t, errors.Join(err, archive.Close(), out.Close()))
	c, err := FindCurator(zookeeper)
	eventstest.Must(t, err)
	want := []string{filepath.Join(home, "*"), "/zookeeper/*"}
	eventstest.Equal(t, c.Version, "5.4.0", "the version that FindCurator finds")
	eventstest.Equal(t, c.Classpath, want, "the classpath that FindCurator finds")
	jars, err := spellOut([]string{"first.jar", filepath.Join(home, "*")})
	eventstest.Must(t, err)
	eventstest.Equal(t, jars, []string{"first.jar", recipes}, "spellOut")
}

func TestKazooIsFoundAndRun(t *testing.T) {
	eventstest.NeedsServers(t)
	k, err := FindKazoo(t.Context())
	eventstest.Must(t, err)
	said, err := k.Command("import sys, kazoo; print(sys.argv[1])", "here").Output()
	if err != nil || string(said) != "here\n" {
		t.Errorf("Python printed %q, %v; want the argument, here", said, err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	_, err = FindKazoo(t.Context())
	eventstest.ErrorIs(t, err, ErrNotFound, "without Python")
}

// far is a round trip that takes longer than anything else in these tests.
const far = 300 * time.Millisecond

// oneRoundTrip fails the test unless the work, on a server with a distant leader, takes
// one round trip to the leader.
func oneRoundTrip(t *testing.T, what string, lag func(time.Duration), work func() error) {
	t.Helper()
	timed := func() time.Duration {
		begin := time.Now()
		eventstest.Must(t, work())
		return time.Since(begin)
	}
	lag(0)
	timed() // the first time creates nodes
	plain := timed()
	lag(far)
	took := timed()
	lag(0)
	eventstest.Expect(t, took >= far && took < 2*far+5*plain,
		"%s takes %v with the leader %v away, %v with it near; want one round trip", what, took, far, plain)
}

// TestAFollowerHasItsLeaderFarAway: a request that needs the leader takes one more round
// trip. A request that the follower answers itself takes no longer.
func TestAFollowerHasItsLeaderFarAway(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	parent := t.TempDir()
	f, err := StartFollower(t.Context(), parent, ensemble.Tick(2*time.Second))
	eventstest.Must(t, err)
	conn, err := Connect(t.Context(), f.Addr, 30*time.Second, nil)
	eventstest.Must(t, err)
	n := 0
	oneRoundTrip(t, "a create", f.Lag, func() error {
		n++
		_, err := conn.Create(fmt.Sprint("/node", n), nil, 0, zk.WorldACL(zk.PermAll))
		return err
	})
	f.Lag(time.Hour)
	_, _, err = conn.Children("/")
	eventstest.Check(t, err)
	f.Lag(0)
	if c, err := f.Counters(t.Context()); err != nil || c["zk_packets_received"] == 0 || f.Version == "" || f.JavaVersion == "" {
		t.Errorf("ZooKeeper %q on Java %q counts %v, %v", f.Version, f.JavaVersion, c, err)
	}
	conn.Close()
	eventstest.Must(t, f.Close())
	empty(t, parent)
}

func TestAFollowerOfEtcdHasItsLeaderFarAway(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	parent := t.TempDir()
	f, err := StartEtcdFollower(t.Context(), parent)
	if errors.Is(err, ErrNotFound) {
		t.Skip(err)
	}
	eventstest.Must(t, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{f.Addr}, Logger: zap.NewNop()})
	eventstest.Must(t, err)
	oneRoundTrip(t, "a put", f.Lag, func() error {
		_, err := client.Put(context.Background(), "key", "value")
		return err
	})
	f.Lag(time.Hour)
	_, err = client.Get(context.Background(), "key", clientv3.WithSerializable())
	eventstest.Check(t, err)
	f.Lag(0)
	if c, err := f.Counters(t.Context()); err != nil || c["grpc_server_started_total"] == 0 {
		t.Errorf("counters %v, %v; want those of requests", c, err)
	}
	eventstest.Must(t, client.Close())
	eventstest.Must(t, f.Close())
	empty(t, parent)
}

func empty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("when it is closed it has left %v, %v; want an empty folder", left, err)
	}
}
