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
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// transferVariable makes a process of the test binary a child that changes two nodes
// under a lock, again and again. Its value is the servers, and the directory of the lock
// and the nodes.
const transferVariable = "ZKGRANT_FAULTS_TRANSFER"

// The contents of the directory.
const left, right, transferLock = "/left", "/right", "/lock"

const transferTimeout = 5 * time.Second

// transferAll prints its token when it first holds the lock, and continues until its
// input ends.
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
			a, _ := coordinator.FromContext(ctx)
			for _, node := range []string{left, right} { // each in its own transaction, so that only one may be changed
				write := &zk.SetDataRequest{Path: dir + node, Data: []byte(strconv.Itoa(i)), Version: -1}
				if _, err := a.Txn(ctx, write); err != nil {
					return err
				}
			}
			return nil
		}, coordinator.Data([]byte("a child")))
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// TestRealHolderIsKilled kills processes anywhere in a loop in which each holds a lock
// and changes two nodes, so perhaps when only one is changed. The next holder finds them
// equal, unless its Grant reports a crash.
func TestRealHolderIsKilled(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	c, conn := connect(t, e.Connect(), transferTimeout, 0), coordtest.RawClient(t, e.Connect())
	create := func(node string) {
		_, err := conn.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, err)
	}
	begun, children := time.Now(), map[string]*child.Child{}
	var dirs []string
	create("/bank")
	for i := range 12 {
		dir := fmt.Sprint("/bank/", i)
		for _, node := range []string{dir, dir + left, dir + right} {
			create(node)
		}
		children[dir] = child.Start(t, fmt.Sprint("child ", i), transferVariable, e.Connect()+" "+dir, nil)
		dirs = append(dirs, dir)
	}
	var told atomic.Bool
	each(dirs, func(dir string) {
		crashed, err := killAndLook(t, children[dir], c, conn, dir, begun)
		eventstest.Expect(t, err == nil, "%s: %v", dir, err)
		if crashed {
			told.Store(true)
		}
	})
	eventstest.Expect(t, told.Load(), "no holder was told of a crash")
}

// killAndLook kills the process at any moment after its first Grant, and acquires the
// lock. It returns whether the Grant reported a crash.
func killAndLook(
	t *testing.T, process *child.Child, c *coordinator.Coordinator, conn *zk.Conn, dir string, begun time.Time,
) (told bool, _ error) {
	line, err := bufio.NewReader(process.Out).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("the child does not hold the lock: %w", err)
	}
	ctx, cancel := eventstest.Patient(patience)
	defer cancel()
	pause(ctx, rand.N(50*time.Millisecond))
	eventstest.Check(t, process.Kill())
	held := c.Mutex(dir+transferLock, coordinator.DetectCrash()).Acquire(ctx, coordinator.Data([]byte("the parent")))
	grant, err := held.Wait(ctx)
	if err != nil {
		return false, err
	}
	l, _, lost := conn.Get(dir + left)
	r, _, err := conn.Get(dir + right)
	if err = errors.Join(lost, err); err != nil {
		return false, err
	}
	if a := grant.Abandoned; a != nil {
		told = true
		first, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || a.Token < first || a.Token >= grant.Token || string(a.Data) != "a child" || a.Since.Before(begun.Add(-time.Second)) {
			t.Errorf("%s: granted %#x and told of %+v; the child was granted %s first", dir, grant.Token, *a, line)
		}
		_, err = held.Txn(ctx, &zk.SetDataRequest{Path: dir + right, Data: l, Version: -1})
		eventstest.Check(t, err)
	} else if string(l) != string(r) {
		t.Errorf("%s: told of no crash, and the nodes are %q and %q", dir, l, r)
	}
	held.Release()
	ended(t, ctx, held, nil)
	there, _, err := conn.Exists(dir + transferLock + ".holder")
	eventstest.Expect(t, err == nil && !there,
		"%s: after the release the record is there: %v, %v", dir, there, err)
	return told, nil
}
