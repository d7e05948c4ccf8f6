package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

//go:embed Player.java
var javaPlayer string

//go:embed player.py
var pythonPlayer string

// javaClass is what the player in Java is called.
const javaClass = "Player"

// patience is how long an answer may take.
const patience = 5 * time.Minute

// contestant is a library in a process of its own.
type contestant struct {
	library
	process *peers.Process
	answers chan string
}

// startContestant starts the process.
func startContestant(l library, cmd *exec.Cmd) (*contestant, error) {
	c := &contestant{library: l, answers: make(chan string, 1)}
	p, err := peers.Start(cmd, func(line peers.Line) { c.answers <- line.Text })
	if err != nil {
		return nil, err
	}
	c.process = p
	return c, nil
}

// ask waits for the answer. It must not be called again before it has returned, nor after an error.
func (c *contestant) ask(ctx context.Context, q question) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	if err := c.process.Say(q.String()); err != nil {
		return nil, err
	}
	var err error
	select {
	case line := <-c.answers:
		values, wrong := parseAnswer(line)
		if wrong == nil {
			return values, nil
		}
		err = wrong
	case <-c.process.Ended():
		err = fmt.Errorf("its process has ended\n%s", c.process.Complaints())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("%s, asked %q: %w", c.Name, q, err)
}

// tell asks what is answered without a number.
func (c *contestant) tell(ctx context.Context, q question) error {
	_, err := c.ask(ctx, q)
	return err
}

// one asks what is answered with one number.
func (c *contestant) one(ctx context.Context, q question) (int64, error) {
	values, err := c.ask(ctx, q)
	if err == nil && len(values) != 1 {
		err = fmt.Errorf("%s, asked %q, answers with %d numbers", c.Name, q, len(values))
	}
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// arena is where the contest takes place: the servers, and how contestants are started.
type arena struct {
	zookeeper *peers.Server
	etcd      *peers.Etcd // nil if it is left out
	commands  map[string]func() *exec.Cmd
	leftOut   map[string]error // libraries by key, and why
	versions  map[string]string
	ramDisk   bool

	classes string
}

// openArena starts what is there to be started. The caller must close it.
func openArena(ctx context.Context) (a *arena, err error) {
	disk := peers.RAMDisk()
	a = &arena{
		commands: make(map[string]func() *exec.Cmd),
		leftOut:  make(map[string]error),
		versions: make(map[string]string),
		ramDisk:  disk != "",
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.zookeeper, err = peers.StartServerIn(ctx, disk, serverSettings()...); err != nil {
		return a, err
	}
	a.versions["ZooKeeper"], a.versions["Java"] = a.zookeeper.Version, a.zookeeper.JavaVersion
	a.versions["go-zookeeper"] = moduleVersion("github.com/go-zookeeper/zk")
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	for _, key := range []string{keyOurs, keyStock, keyBare} {
		a.commands[key] = func() *exec.Cmd { return exec.Command(self, playCommand, key, a.zookeeper.Addr) }
	}
	for key, prepare := range map[string]func(context.Context, string) error{
		keyCurator: a.prepareCurator,
		keyKazoo:   a.prepareKazoo,
		keyEtcd: func(ctx context.Context, disk string) error {
			return a.prepareEtcd(ctx, disk, self)
		},
	} {
		if err := prepare(ctx, disk); err != nil {
			if ctx.Err() != nil {
				return a, err
			}
			a.leftOut[key] = err
		}
	}
	return a, nil
}

func (a *arena) prepareCurator(ctx context.Context, _ string) error {
	curator, err := peers.FindCurator(a.zookeeper.Installation)
	if err != nil {
		return err
	}
	if a.classes, err = os.MkdirTemp("", "zkgrant-locks"); err != nil {
		return err
	}
	if err := curator.Compile(ctx, a.classes, javaClass, javaPlayer); err != nil {
		return err
	}
	a.versions["Curator"] = curator.Version
	a.commands[keyCurator] = func() *exec.Cmd {
		return curator.Command(a.classes, javaClass, a.zookeeper.Addr, strconv.FormatInt(sessionTimeout.Milliseconds(), 10))
	}
	return nil
}

func (a *arena) prepareKazoo(ctx context.Context, _ string) error {
	kazoo, err := peers.FindKazoo(ctx)
	if err != nil {
		return err
	}
	a.versions["kazoo"], a.versions["Python"] = kazoo.Version, kazoo.PythonVersion
	a.commands[keyKazoo] = func() *exec.Cmd {
		return kazoo.Command(pythonPlayer, a.zookeeper.Addr, strconv.FormatInt(sessionTimeout.Milliseconds(), 10))
	}
	return nil
}

func (a *arena) prepareEtcd(ctx context.Context, disk, self string) (err error) {
	if a.etcd, err = peers.StartEtcd(ctx, disk); err != nil {
		return err
	}
	a.versions["etcd"] = a.etcd.Version
	a.versions["etcd's client"] = moduleVersion("go.etcd.io/etcd/client/v3")
	a.commands[keyEtcd] = func() *exec.Cmd { return exec.Command(self, playCommand, keyEtcd, a.etcd.Addr) }
	return nil
}

// start starts a contestant with one library.
func (a *arena) start(l library) (*contestant, error) { return startContestant(l, a.commands[l.Key]()) }

// close ends the servers and removes what was compiled.
func (a *arena) close() (err error) {
	if a.zookeeper != nil {
		err = a.zookeeper.Close()
	}
	if a.etcd != nil {
		err = errors.Join(err, a.etcd.Close())
	}
	if a.classes != "" {
		err = errors.Join(err, os.RemoveAll(a.classes))
	}
	return err
}
