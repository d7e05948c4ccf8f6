package interop

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// family is a library whose contenders meet those of other libraries.
type family string

const (
	zkgrant   family = "zkgrant"
	stock     family = "go-zookeeper"
	curator   family = "curator"
	kazoo     family = "kazoo"
	writeLock family = "writelock" // ZooKeeper's own
)

var (
	//go:embed Player.java
	javaPlayer string
	//go:embed WriteLocks.java
	javaWriteLocks string
	//go:embed player.py
	pythonPlayer string
)

const (
	// javaClass is the class of the Java player.
	javaClass = "Player"

	serverTick = 500 * time.Millisecond
	// longSession is the session timeout of contenders that are not killed. It is nearly
	// the longest that the server grants, because all of them keep the machine busy.
	longSession = 9 * time.Second
	// shortSession is the session timeout of contenders that are killed, because the
	// others wait until it expires.
	shortSession = 4 * time.Second

	// placeKept is the first Curator version whose writer keeps its place when it becomes
	// a reader.
	placeKept = "5.5.0"
	// readersFixed is the first kazoo version whose readers wait only for earlier
	// writers.
	readersFixed = "2.9.0"
)

// arena is where contenders meet: a server, and the commands that start players. It opens
// when the first test needs it.
type arena struct {
	once    sync.Once
	err     error
	addr    string
	server  *peers.Server // nil if it runs in this process
	folder  string        // the compiled Java classes
	witness witness
}

var theArena arena

// The libraries are located when the first test needs them. Curator includes its player,
// which also plays WriteLock with one more class.
var (
	findCurator = sync.OnceValues(func() (peers.Curator, error) {
		found, err := peers.FindCurator(theArena.server.Installation)
		if err != nil {
			return found, err
		}
		return found, found.Compile(context.Background(), theArena.folder, javaClass, javaPlayer)
	})
	findWriteLock = sync.OnceValues(func() (peers.Curator, error) {
		jvm, err := findCurator()
		if err != nil {
			return jvm, err
		}
		jar, err := peers.FindWriteLock()
		if err != nil {
			return jvm, err
		}
		jvm = jvm.With(jar)
		folder := theArena.folder
		return jvm, jvm.With(folder).Compile(context.Background(), folder, "WriteLocks", javaWriteLocks)
	})
	findKazoo = sync.OnceValues(func() (peers.Kazoo, error) { return peers.FindKazoo(context.Background()) })
)

// found returns the library. It fails the test if the library is missing.
func found[T any](tb testing.TB, find func() (T, error)) T {
	tb.Helper()
	library, err := find()
	eventstest.Must(tb, err)
	return library
}

// enter returns the arena. It skips the test unless real servers are enabled.
func enter(tb testing.TB) *arena {
	tb.Helper()
	eventstest.NeedsServersEachTime(tb)
	a := &theArena
	a.once.Do(func() { a.err = a.open(context.Background()) })
	eventstest.Must(tb, a.err)
	return a
}

func (a *arena) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a.folder, err = os.MkdirTemp("", "zkgrant-interop"); err != nil {
		return err
	}
	if a.server, err = peers.StartServer(ctx, peers.RAMDisk(), 1, ensemble.Tick(serverTick)); err != nil {
		return err
	}
	a.addr = a.server.Addr
	a.witness, err = callWitness(ctx, a.addr)
	return err
}

// close ends the server and removes the compiled classes. It is called once, after all
// contenders have ended.
func (a *arena) close() (err error) {
	if a.witness.conn != nil {
		a.witness.conn.Close()
	}
	if a.server != nil {
		err = a.server.Close()
	}
	if a.folder != "" {
		err = errors.Join(err, os.RemoveAll(a.folder))
	}
	return err
}

// command returns the command of the family's player at a server, with the session
// timeout.
func (a *arena) command(tb testing.TB, f family, addr string, timeout time.Duration) *exec.Cmd {
	tb.Helper()
	args := []string{addr, strconv.FormatInt(timeout.Milliseconds(), 10)}
	switch f {
	case zkgrant, stock:
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), playEnv+"="+string(f))
		return cmd
	case kazoo:
		return found(tb, findKazoo).Command(pythonPlayer, args...)
	case curator, writeLock:
	}
	find := findCurator
	if f == writeLock {
		find = findWriteLock
	}
	cmd := found(tb, find).Command(a.folder, javaClass, args...)
	// No player runs long enough to benefit from the optimising compiler or a parallel
	// collector.
	cmd.Args = slices.Insert(cmd.Args, 1, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	return cmd
}

// version returns the version of a library, such as 5.4.0, or a question mark.
func version(tb testing.TB, f family) string {
	tb.Helper()
	switch f {
	case curator:
		return found(tb, findCurator).Version
	case kazoo:
		return found(tb, findKazoo).Version
	case stock:
		return figures.ModuleVersion("github.com/go-zookeeper/zk")
	case zkgrant, writeLock:
	}
	return "?"
}
