package interop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// family is a library, of which contenders meet those of others.
type family string

const (
	zkgrant   family = "zkgrant"
	stock     family = "go-zookeeper"
	curator   family = "curator"
	kazoo     family = "kazoo"
	writeLock family = "writelock" // ZooKeeper's own
)

//go:embed Player.java
var javaPlayer string

const (
	// javaClass is the class of the player in Java.
	javaClass = "Player"
	// playEnv, in its environment, makes the test binary the player of the family that it names.
	playEnv = "ZKGRANT_INTEROP_PLAYER"

	serverTick = 500 * time.Millisecond
	// longSession is the session timeout of contenders that live. The machine is busy with all of them, so it is nearly the longest that the
	// server agrees to.
	longSession = 9 * time.Second
	// shortSession is the session timeout of contenders that are killed, as the others wait for its end.
	shortSession = 4 * time.Second
)

// playRole is what a player's process in Go does. Its arguments are those of every player.
func playRole(ctx context.Context, role string, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q", args)
	}
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	timeout := time.Duration(ms) * time.Millisecond
	var p goPlayer
	switch family(role) {
	case zkgrant:
		p.open = openOurs(args[0], timeout)
	case stock:
		p.open = openStock(args[0], timeout)
	default:
		return fmt.Errorf("%s does not play in Go", role)
	}
	return p.play(ctx, os.Stdin, os.Stdout)
}

// arena is where contenders meet: a server, and the commands of the families. It opens when the first test needs it.
type arena struct {
	once    sync.Once
	err     error
	addr    string
	server  *peers.Server // nil if it is in this process
	folder  string        // of compiled classes
	witness witness

	java sync.Once
	jvm  peers.Curator
	jerr error

	guests guests
}

var theArena arena

// enter returns the arena. It skips the test unless real servers are asked for.
func enter(tb testing.TB) *arena {
	tb.Helper()
	eventstest.NeedsServers(tb)
	a := &theArena
	a.once.Do(func() { a.err = a.open(context.Background()) })
	if a.err != nil {
		tb.Fatal(a.err)
	}
	return a
}

func (a *arena) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a.folder, err = os.MkdirTemp("", "zkgrant-interop"); err != nil {
		return err
	}
	if a.server, err = peers.StartServerIn(ctx, peers.RAMDisk(), ensemble.Tick(serverTick)); err != nil {
		return err
	}
	a.addr = a.server.Addr
	a.witness, err = callWitness(ctx, a.addr)
	return err
}

// close ends the server and removes the compiled classes. It is called once, when no contender plays any more.
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

// command returns the command of a player of the family, with the session timeout. It fails the test if the family is not on this
// machine.
func (a *arena) command(tb testing.TB, f family, timeout time.Duration) *exec.Cmd {
	tb.Helper()
	args := []string{a.addr, strconv.FormatInt(timeout.Milliseconds(), 10)}
	switch f {
	case zkgrant, stock:
		self, err := os.Executable()
		if err != nil {
			tb.Fatal(err)
		}
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), playEnv+"="+string(f))
		return cmd
	case curator:
		a.java.Do(func() { a.jvm, a.jerr = a.compile(context.Background()) })
		if a.jerr != nil {
			tb.Fatal(a.jerr)
		}
		return lean(a.jvm.Command(a.folder, javaClass, args...))
	case kazoo, writeLock:
		return a.guest(tb, f, args)
	default:
		tb.Fatalf("there is no way to run %s", f)
		return nil
	}
}

// lean makes Java start quickly. No player lives long enough to gain from a second compiler or several collectors.
func lean(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = slices.Insert(cmd.Args, 1, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	return cmd
}

func (a *arena) compile(ctx context.Context) (peers.Curator, error) {
	found, err := peers.FindCurator(a.server.Installation)
	if err != nil {
		return found, err
	}
	return found, found.Compile(ctx, a.folder, javaClass, javaPlayer)
}

// keepsItsPlace tells whether a writer that becomes a reader keeps out the writers that wait behind it. Curator's does since 5.5. Before
// that it comes in anew behind them, and they enter beside it, Curator's own as well.
func (a *arena) keepsItsPlace(c *contender) bool {
	if c.player.family != curator || c.form != formDowngrade {
		return true
	}
	var major, minor int
	if _, err := fmt.Sscanf(a.jvm.Version, "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major > 5 || major == 5 && minor >= 5
}
