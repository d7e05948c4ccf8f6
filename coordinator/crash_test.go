package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const recordPath = lockPath + session.RecordSuffix

// detecting is the lock that most of these tests fight for.
func detecting(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	return c.Mutex(lockPath, append(options, coordinator.DetectCrash())...)
}

// finish releases and waits for the end.
func finish(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	<-a.Done()
	if err := a.Err(); err != nil {
		t.Errorf("released: %v", err)
	}
}

// leftInOrder holds that a lock can be had, that nobody has crashed, and that nothing is left of it.
func leftInOrder(t *testing.T, srv *zktest.Server, l *coordinator.Lock) {
	t.Helper()
	a := l.Acquire(context.Background())
	if g := coordtest.Soon(t, a); g.Abandoned != nil {
		t.Errorf("a crash is told of that was none: %+v", g.Abandoned)
	}
	finish(t, a)
	synctest.Wait()
	if srv.Exists(recordPath) || len(srv.Children(lockPath)) > 0 {
		t.Errorf("left: %v", srv.Tree())
	}
}

// TestARecordStandsWhileTheLockIsHeld: beside the directory, and goes with the node of one who releases.
func TestARecordStandsWhileTheLockIsHeld(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := detecting(coordtest.Connect(t, srv))
		for range 3 {
			a, grant := coordtest.Hold(t, l, coordinator.WithData([]byte("who\n\nI am")))
			data, _ := srv.Data(recordPath)
			want := fmt.Sprintf("zkgrant holder\nnode %s\ntoken 0x%x\nsince %s\n\nwho\n\nI am",
				path.Base(grant.Node), grant.Token, time.Now().UTC().Format(time.RFC3339Nano))
			if string(data) != want || grant.Abandoned != nil {
				t.Errorf("the record is %q, want %q; %v", data, want, grant.Abandoned)
			}
			if got := srv.Children(lockPath); len(got) != 1 {
				t.Errorf("in the directory: %v", got)
			}
			finish(t, a)
			if srv.Exists(recordPath) {
				t.Error("the record is there behind the release")
			}
			time.Sleep(time.Second)
		}
	})
}

// expire ends the coordinator's session at the server.
func expire(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
	t.Helper()
	if err := srv.Expire(c.SessionID()); err != nil {
		t.Error(err)
	}
}

// TestAPanicInATermIsACrash, and leaving a term is none. The record tells since when the lock was held, and Grant tells what was delivered.
func TestAPanicInATermIsACrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for _, err := range a.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context()) {
			if err != nil {
				t.Fatalf("the first term: %v", err)
			}
			break
		}
		leftInOrder(t, srv, detecting(b))
		began := time.Now()
		time.Sleep(time.Second)
		func() {
			defer func() { _ = recover() }()
			for range a.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context(), coordinator.WithData([]byte("first"))) {
				panic("boom")
			}
		}()
		next, got := coordtest.Hold(t, detecting(b))
		if got.Abandoned == nil || string(got.Abandoned.Data) != "first" {
			t.Fatalf("behind the panic the next holder is told %+v, want a crash with the data %q", got.Abandoned, "first")
		}
		if since := got.Abandoned.Since; since.Before(began) || since.After(time.Now()) {
			t.Errorf("the crashed term was held since %v, want a time between %v and %v", since, began, time.Now())
		}
		if again := next.Grant(); !reflect.DeepEqual(again, got) {
			t.Errorf("Grant() = %+v, and %+v was delivered", again, got)
		}
	})
}
