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

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

//go:embed Player.java
var javaPlayer string

//go:embed player.py
var pythonPlayer string

const javaClass = "Player"

// patience is how long an answer may take.
const patience = 5 * time.Minute

// contestant is a library in its own process.
type contestant struct {
	library
	process *peers.Dialogue
}

func startContestant(l library, cmd *exec.Cmd) (*contestant, error) {
	p, err := peers.StartDialogue(cmd)
	return &contestant{library: l, process: p}, err
}

// ask asks a question and waits for the answer. It must not be called concurrently or
// after an error.
func (c *contestant) ask(ctx context.Context, q question) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	line, err := c.process.Ask(ctx, q.String())
	if err == nil {
		var values []int64
		if values, err = parseAnswer(line); err == nil {
			return values, nil
		}
	}
	return nil, fmt.Errorf("%s, asked %q: %w", c.Name, q, err)
}

// arena is a place with standalone servers, and the commands that start contestants.
type arena struct {
	place
	commands map[string]func(addr string) *exec.Cmd
	leftOut  map[string]error // by key, the reason why a library is missing
	versions map[string]string
	disk     string // the RAM disk; empty if there is none
}

// openArena starts every server that is installed. The caller must close the arena.
func openArena(ctx context.Context) (a *arena, err error) {
	a = &arena{
		commands: make(map[string]func(string) *exec.Cmd),
		leftOut:  make(map[string]error),
		versions: make(map[string]string),
		disk:     peers.RAMDisk(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	zookeeper, err := peers.StartServer(ctx, a.disk, 1, serverSettings()...)
	if err != nil {
		return a, err
	}
	a.closers = append(a.closers, zookeeper.Close)
	a.zookeeper = endpoint{zookeeper, zookeeper.Addr}
	a.versions["ZooKeeper"], a.versions["Java"] = zookeeper.Version, zookeeper.JavaVersion
	a.versions["go-zookeeper"] = figures.ModuleVersion("github.com/go-zookeeper/zk")
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	for _, key := range []string{keyOurs, keyCached, keyStock, keyBare} {
		a.commands[key] = func(addr string) *exec.Cmd { return exec.Command(self, playCommand, key, addr) }
	}
	for key, prepare := range map[string]func() error{
		keyCurator: func() error { return a.prepareCurator(ctx, zookeeper.Installation) },
		keyKazoo:   func() error { return a.prepareKazoo(ctx) },
		keyEtcd:    func() error { return a.prepareEtcd(ctx, self) },
	} {
		if err := prepare(); err != nil {
			if ctx.Err() != nil {
				return a, err
			}
			a.leftOut[key] = err
		}
	}
	return a, nil
}

func (a *arena) prepareCurator(ctx context.Context, zookeeper ensemble.Installation) error {
	curator, err := peers.FindCurator(zookeeper)
	if err != nil {
		return err
	}
	classes, err := os.MkdirTemp("", "zkgrant-locks")
	if err != nil {
		return err
	}
	a.closers = append(a.closers, func() error { return os.RemoveAll(classes) })
	if err := curator.Compile(ctx, classes, javaClass, javaPlayer); err != nil {
		return err
	}
	a.versions["Curator"] = curator.Version
	a.commands[keyCurator] = func(addr string) *exec.Cmd {
		return curator.Command(classes, javaClass, addr, strconv.FormatInt(sessionTimeout.Milliseconds(), 10))
	}
	return nil
}

func (a *arena) prepareKazoo(ctx context.Context) error {
	kazoo, err := peers.FindKazoo(ctx)
	if err != nil {
		return err
	}
	a.versions["kazoo"], a.versions["Python"] = kazoo.Version, kazoo.PythonVersion
	a.commands[keyKazoo] = func(addr string) *exec.Cmd {
		return kazoo.Command(pythonPlayer, addr, strconv.FormatInt(sessionTimeout.Milliseconds(), 10))
	}
	return nil
}

func (a *arena) prepareEtcd(ctx context.Context, self string) error {
	etcd, err := peers.StartEtcd(ctx, a.disk)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, etcd.Close)
	a.etcd = endpoint{etcd, etcd.Addr}
	a.versions["etcd"] = etcd.Version
	a.versions["etcd's client"] = figures.ModuleVersion("go.etcd.io/etcd/client/v3")
	a.commands[keyEtcd] = func(addr string) *exec.Cmd { return exec.Command(self, playCommand, keyEtcd, addr) }
	return nil
}

func (a *arena) start(l library, at *place) (*contestant, error) {
	return startContestant(l, a.commands[l.Key](at.of(l.Key).addr))
}
