package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealDetectCrash: releases and crashes of holders on three servers, the next one on another server each time.
func TestRealDetectCrash(t *testing.T) {
	const path, record = "/locks/crash", "/locks/crash" + session.RecordSuffix
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	conn := coordtest.RawClient(t, e.Addr(0))
	locks := make([]*coordinator.ReadWrite, 0, 3)
	for i := range 3 {
		locks = append(locks, coordtest.ConnectReal(t, e.Addr(i)).ReadWrite(path, coordinator.DetectCrash()))
	}
	stands := func() bool {
		t.Helper()
		if _, err := conn.Sync(path); err != nil {
			t.Fatal(err)
		}
		there, _, err := conn.Exists(record)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	crashed := "" // the first that has, and nobody has released
	for round := range 30 {
		l := locks[round%3]
		reader := l.Read().Acquire(ctx)
		g := coordtest.GrantOf(t, reader)
		waiter := l.Write().Acquire(ctx, coordinator.WithData([]byte("waiter")))
		if told := g.Abandoned; (told != nil) != (crashed != "") || told != nil && told.Node != crashed {
			t.Errorf("round %d: a reader is told %+v, and %q has crashed", round, told, crashed)
		}
		reader.Release()
		g = coordtest.GrantOf(t, waiter)
		if told := g.Abandoned; (told != nil) != (crashed != "") || told != nil && (told.Node != crashed || string(told.Data) != "waiter") {
			t.Errorf("round %d: a writer is told %+v, and %q has crashed", round, told, crashed)
		}
		if !stands() {
			t.Errorf("round %d: no record while the lock is held", round)
		}
		switch round % 5 {
		case 1, 2: // somebody takes its node away
			if err := conn.Delete(g.Node, -1); err != nil {
				t.Fatal(err)
			}
			<-waiter.Done()
			if crashed == "" {
				crashed = g.Node
			}
		case 3: // it goes on as a reader
			again := l.Read().Acquire(waiter.Context(ctx))
			if got := coordtest.GrantOf(t, again); (got.Abandoned != nil) != (crashed != "") {
				t.Errorf("round %d: a reader in the place of a writer is told %+v", round, got.Abandoned)
			}
			waiter.Release()
			<-waiter.Done()
			again.Release()
			<-again.Done()
			crashed = ""
		default:
			waiter.Release()
			<-waiter.Done()
			crashed = ""
		}
		if err := waiter.Err(); crashed == "" && err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if stands() != (crashed != "") {
			t.Errorf("round %d: the record stands: %v", round, stands())
		}
	}
}

// TestRealDetectCrashExpired: the session of a holder ends, with one waiting and with nobody.
func TestRealDetectCrashExpired(t *testing.T) {
	const path = "/locks/expired"
	e := ensemble.Start(t, 1)
	ctx := coordtest.RealContext(t)
	next := coordtest.ConnectReal(t, e.Connect())
	for _, waits := range []bool{false, true} {
		p := ensemble.StartProxy(t, e.Addr(0))
		c, err := coordinator.Connect(ctx, p.Addr(), coordinator.WithSessionTimeout(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		a := c.Mutex(path, coordinator.DetectCrash()).Acquire(ctx, coordinator.WithData([]byte("who")))
		g := coordtest.GrantOf(t, a)
		var waiter *coordinator.Acquisition
		if waits {
			waiter = next.Mutex(path, coordinator.DetectCrash()).Acquire(ctx)
		}
		p.Refuse(true)
		p.Cut()
		<-a.Lost()
		if !waits {
			waiter = next.Mutex(path, coordinator.DetectCrash()).Acquire(ctx)
		}
		got := coordtest.GrantOf(t, waiter).Abandoned
		if got == nil || got.Node != g.Node || got.Token != g.Token || string(got.Data) != "who" || got.Since.Before(before) || got.Since.After(time.Now()) {
			t.Errorf("told %+v, want that of %+v", got, g)
		}
		waiter.Release()
		<-waiter.Done()
		if err := waiter.Err(); err != nil {
			t.Error(err)
		}
		_ = c.Close() // it cannot tell the server
	}
}

// TestRealRecordPermissions: what a real server refuses is told as a refusal, and nothing is left but the record.
func TestRealRecordPermissions(t *testing.T) {
	e := ensemble.Start(t, 1)
	conn := coordtest.RawClient(t, e.Addr(0))
	for _, node := range []string{"/a", "/a/lock"} {
		if _, err := conn.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		perms int32
		held  bool
	}{{zk.PermAdmin | zk.PermRead | zk.PermDelete, false}, {zk.PermAdmin | zk.PermRead | zk.PermCreate, true}} {
		if _, err := conn.SetACL("/a", zk.WorldACL(test.perms), -1); err != nil {
			t.Fatal(err)
		}
		a := coordtest.ConnectReal(t, e.Connect()).Mutex("/a/lock", coordinator.DetectCrash()).Acquire(context.Background())
		if _, err := a.Wait(coordtest.RealContext(t)); (err == nil) != test.held {
			t.Fatal(err)
		}
		a.Release()
		<-a.Done()
		if err := a.Err(); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("%v", err)
		}
		coordtest.Queued(t, conn, "/a/lock", 0)
	}
}
