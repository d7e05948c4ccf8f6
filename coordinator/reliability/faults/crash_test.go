package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// transferVariable makes a process of the test binary a child that changes two nodes under a lock, again and again. It holds the
// servers, and the directory of the lock and of the nodes.
const transferVariable = "ZKGRANT_FAULTS_TRANSFER"

// What is in the directory.
const left, right, transferLock = "/left", "/right", "/lock"

const transferTimeout = 2 * time.Second

// transferAll prints its token when it holds the lock for the first time, and goes on until its input ends.
func transferAll(job string) error {
	servers, dir, _ := strings.Cut(job, " ")
	ctx, hungUp := context.WithCancel(context.Background())
	defer hungUp()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		hungUp()
	}()
	c, err := coordinator.Connect(ctx, servers, coordinator.WithSessionTimeout(transferTimeout))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	lock := c.Mutex(dir+transferLock, coordinator.DetectCrash())
	for i := 0; ctx.Err() == nil; i++ {
		err := lock.Do(ctx, func(ctx context.Context, g events.Grant) error {
			if i == 0 {
				fmt.Println(g.Token)
			}
			if g.Abandoned != nil {
				return errors.New("told of a crash, and its own holder before has released")
			}
			for _, node := range []string{left, right} { // each in a transaction of its own: half of it may be done
				if err := write(ctx, dir+node, strconv.Itoa(i)); err != nil {
					return err
				}
			}
			return nil
		}, coordinator.WithData([]byte("a child")))
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, node, data string) error {
	a, _ := coordinator.FromContext(ctx)
	_, err := a.Txn(ctx, &zk.SetDataRequest{Path: node, Data: []byte(data), Version: -1})
	return err
}

// TestRealHolderIsKilled kills processes anywhere in a loop in which each holds a lock and changes two nodes, so that only one of
// them may be changed. The next holder finds them equal, unless it is told of a crash.
func TestRealHolderIsKilled(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const processes = 12
	e := ensemble.Start(t, 1)
	c := connect(t, e.Connect(), transferTimeout, 0)
	conn := stock(t, []string{e.Addr(0)}, 10*time.Second, nil)
	create := func(node string) {
		if _, err := conn.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	var told, halves atomic.Int64
	var running sync.WaitGroup
	create("/bank")
	for i := range processes {
		tr := &transfer{dir: fmt.Sprint("/bank/", i), c: c, conn: conn, begun: time.Now()}
		create(tr.dir)
		create(tr.dir + left)
		create(tr.dir + right)
		tr.child = child.Start(t, fmt.Sprint("child ", i), transferVariable, e.Connect()+" "+tr.dir, nil)
		running.Go(func() {
			if err := tr.killAndLook(t); err != nil {
				t.Errorf("%s: %v", tr.dir, err)
			}
			if tr.told {
				told.Add(1)
			}
			if tr.half {
				halves.Add(1)
			}
		})
	}
	running.Wait()
	t.Logf("%d processes killed, %d crashes told, %d of them with one of the nodes changed", processes, told.Load(), halves.Load())
	if told.Load() == 0 {
		t.Error("no holder was told of a crash")
	}
}

// transfer is one lock with two nodes, and a process that is killed.
type transfer struct {
	dir   string
	c     *coordinator.Coordinator
	conn  *zk.Conn
	child *child.Child
	begun time.Time

	told, half bool // the next holder was told; it found one of the nodes changed
}

// killAndLook kills the process at any moment after its first Grant, and takes the lock.
func (tr *transfer) killAndLook(t *testing.T) error {
	line, err := bufio.NewReader(tr.child.Out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the child does not hold the lock: %w", err)
	}
	ctx, cancel := patient()
	defer cancel()
	pause(ctx, rand.N(50*time.Millisecond))
	if err := tr.child.Kill(); err != nil {
		return err
	}
	held := tr.c.Mutex(tr.dir+transferLock, coordinator.DetectCrash()).Acquire(ctx, coordinator.WithData([]byte("the parent")))
	grant, err := held.Wait(ctx)
	if err != nil {
		return err
	}
	l, _, lost := tr.conn.Get(tr.dir + left)
	r, _, err := tr.conn.Get(tr.dir + right)
	if err = errors.Join(lost, err); err != nil {
		return err
	}
	tr.told = grant.Abandoned != nil
	switch {
	case tr.told:
		first, err := strconv.ParseInt(line[:len(line)-1], 10, 64)
		if a := grant.Abandoned; err != nil || a.Token < first || a.Token >= grant.Token || string(a.Data) != "a child" ||
			a.Since.Before(tr.begun.Add(-time.Second)) {
			t.Errorf("%s: granted %#x and told of %+v; the child was granted %s first", tr.dir, grant.Token, *a, line)
		}
		tr.half = string(l) != string(r)
		if _, err := held.Txn(ctx, &zk.SetDataRequest{Path: tr.dir + right, Data: l, Version: -1}); err != nil {
			return err
		}
	case string(l) != string(r):
		t.Errorf("%s: told of no crash, and the nodes are %q and %q", tr.dir, l, r)
	}
	held.Release()
	ended(t, ctx, held, nil)
	if there, _, err := tr.conn.Exists(tr.dir + transferLock + ".holder"); err != nil || there {
		t.Errorf("%s: after the release the record is there: %v, %v", tr.dir, there, err)
	}
	return nil
}
