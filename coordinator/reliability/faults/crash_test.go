package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// transferVariable makes a process of the test binary a child that changes two nodes under a lock, again and again, at
// the servers that are named there.
const transferVariable = "ZKGRANT_FAULTS_TRANSFER"

const (
	transferLock    = "/bank/lock"
	left, right     = "/bank/left", "/bank/right"
	transferTimeout = 2 * time.Second
)

// transferAll says who it is when it holds the lock for the first time, and goes on until its input ends.
func transferAll(servers string) error {
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
	lock := c.Mutex(transferLock, coordinator.DetectCrash())
	for i := 0; ctx.Err() == nil; i++ {
		err := lock.Do(ctx, func(ctx context.Context, g events.Grant) error {
			if i == 0 {
				fmt.Println(g.Token)
			}
			if g.Abandoned != nil {
				return errors.New("told of a crash by one who has released")
			}
			for _, node := range []string{left, right} { // each in a transaction of its own: half of it may be done
				if err := write(ctx, node, strconv.Itoa(i)); err != nil {
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

// TestRealHolderIsKilled kills a process anywhere in a loop in which it holds a lock and changes two nodes, so that one of them
// may be changed and the other not. Whoever holds the lock then and is told of no crash finds them equal.
func TestRealHolderIsKilled(t *testing.T) {
	const rounds = 12
	e := ensemble.Start(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := coordinator.Connect(ctx, e.Connect(), coordinator.WithSessionTimeout(transferTimeout))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn := stock(t, []string{e.Addr(0)}, 10*time.Second, func(zk.Event) {})
	for _, node := range []string{"/bank", left, right} {
		if _, err := conn.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	lock := c.Mutex(transferLock, coordinator.DetectCrash())
	told, halves := 0, 0
	for round := range rounds {
		worker := child.Start(t, fmt.Sprint("child ", round), transferVariable, e.Connect(), nil)
		line, err := bufio.NewReader(worker.Out).ReadString('\n')
		if err != nil {
			t.Fatalf("the child does not hold the lock: %v", err)
		}
		pause(ctx, rand.N(50*time.Millisecond))
		if err := worker.Kill(); err != nil {
			t.Fatal(err)
		}
		held := lock.Acquire(ctx, coordinator.WithData([]byte("the parent")))
		grant, err := held.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		l, r := read(t, conn, left), read(t, conn, right)
		switch {
		case grant.Abandoned != nil:
			told++
			if first, err := strconv.ParseInt(line[:len(line)-1], 10, 64); err != nil || grant.Abandoned.Token < first ||
				grant.Abandoned.Token >= grant.Token || string(grant.Abandoned.Data) != "a child" || time.Since(grant.Abandoned.Since) > time.Minute {
				t.Errorf("told of %+v, after %s", *grant.Abandoned, line)
			}
			if l != r {
				halves++
			}
			if _, err := held.Txn(ctx, &zk.SetDataRequest{Path: right, Data: []byte(l), Version: -1}); err != nil {
				t.Error(err)
			}
		case l != r:
			t.Errorf("%q and %q, and told of no crash", l, r)
		}
		held.Release()
		<-held.Done()
		if err := held.Err(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("killed %d times, told of %d, %d of which had changed one of the nodes", rounds, told, halves)
	if told == 0 {
		t.Error("nobody was told")
	}
	if there, _, err := conn.Exists(transferLock + ".holder"); err != nil || there {
		t.Errorf("the record is there: %v, %v", there, err)
	}
}

func read(t *testing.T, conn *zk.Conn, node string) string {
	t.Helper()
	data, _, err := conn.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
