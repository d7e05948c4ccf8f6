package coordinator_test

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAsKazoo: the names are kazoo's, and so is the life of the directory; all else is as ever.
func TestAsKazoo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for form, locks := range map[string][2]*coordinator.Lock{
			`[0-9a-f]{32}__lock__\d{10}()$`: {a.Mutex("/as/kazoo/mutex", coordinator.AsKazoo()), b.Mutex("/as/kazoo/mutex", coordinator.AsKazoo())},
			`[0-9a-f]{32}__lock__\d{10}$`:   {a.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write(), b.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write()},
			`[0-9a-f]{32}__rlock__\d{10}$`:  {a.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Read(), b.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Write()},
		} {
			first, grant := coordtest.Hold(t, locks[0])
			second := coordtest.Queue(locks[1])
			if name := path.Base(grant.Node); !regexp.MustCompile("^" + form).MatchString(name) {
				t.Errorf("the name is %s, want %s", name, form)
			}
			if second.Valid() {
				t.Error("two hold")
			}
			if data, ok := srv.Data(grant.Node); !ok || data == nil {
				t.Errorf("%s has no data, and kazoo does not show it then", grant.Node)
			}
			first.Release()
			if g := coordtest.Soon(t, second); g.Token <= grant.Token {
				t.Errorf("token %d behind %d", g.Token, grant.Token)
			}
			second.Release()
			<-second.Done()
			synctest.Wait()
			if srv.Reap(); !srv.Exists(locks[0].Path()) {
				t.Errorf("%s was removed when it was empty", locks[0].Path())
			}
		}
	})
}

// TestAsKazooFindsItsNodeAgain: a create whose reply is lost is looked up by kazoo's form of the GUID.
func TestAsKazooFindsItsNodeAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.AsKazoo())
		holder, _ := coordtest.Hold(t, lock)
		lost := false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if coordtest.Creates(r) && !lost {
				lost = true
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		waiter := coordtest.Queue(lock)
		time.Sleep(3 * time.Second)
		if got := srv.Children(lockPath); len(got) != 2 || !lost {
			t.Fatalf("nodes: %v", got)
		}
		holder.Release()
		coordtest.Soon(t, waiter)
		waiter.Release()
		<-waiter.Done()
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("nodes left: %v", got)
		}
	})
}

// TestAsKazooRefusesWhomKazooDoesNotSee: in the queue that it would join, before or behind, holding or waiting.
func TestAsKazooRefusesWhomKazooDoesNotSee(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, a.Mutex(lockPath))
		before := srv.Tree()
		for what, l := range map[string]*coordinator.Lock{
			"mutex":  b.Mutex(lockPath, coordinator.AsKazoo()),
			"reader": b.ReadWrite(lockPath, coordinator.AsKazoo()).Read(),
			"writer": b.ReadWrite(lockPath, coordinator.AsKazoo()).Write(),
		} {
			for _, options := range [][]coordinator.AcquireOption{nil, {coordinator.Try()}} {
				acq := l.Acquire(t.Context(), options...)
				<-acq.Done()
				if err := acq.Err(); !errors.Is(err, coordinator.ErrKind) || !strings.Contains(err.Error(), lockPath) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if got := srv.Tree(); !slices.Equal(got, before) {
			t.Errorf("the tree is\n%v, was\n%v", got, before)
		}
		holder.Release()
		<-holder.Done()

		// Ours holds; one of another form waits behind it, as it should, and from then on it is seen.
		kazoos, _ := coordtest.Hold(t, b.Mutex(lockPath, coordinator.AsKazoo()))
		waiter := coordtest.Queue(a.Mutex(lockPath))
		late := coordtest.Queue(b.Mutex(lockPath, coordinator.AsKazoo()))
		if err := late.Err(); !errors.Is(err, coordinator.ErrKind) || waiter.Valid() || !kazoos.Valid() {
			t.Errorf("behind a holder and a waiter: %v", err)
		}
		kazoos.Release()
		coordtest.Soon(t, waiter)
	})
}

// TestAsKazooIsAnotherKindOfLock: within one coordinator a path has one form of names.
func TestAsKazooIsAnotherKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.AsKazoo()))
		for what, acq := range map[string]*coordinator.Acquisition{
			"mutex":                  c.Mutex(lockPath).Acquire(t.Context()),
			"reader":                 c.ReadWrite(lockPath).Read().Acquire(t.Context()),
			"mutex, by the holder":   c.Mutex(lockPath, coordinator.Reentrant()).Acquire(holder.Context(t.Context())),
			"writer in kazoo's form": c.ReadWrite(lockPath, coordinator.AsKazoo()).Write().Acquire(t.Context()),
			"semaphore as kazoo's":   c.Semaphore("/other", 2, coordinator.AsKazoo()).Acquire(t.Context()),
			"unfair as kazoo's":      c.Unfair("/another", coordinator.AsKazoo()).Acquire(t.Context()),
		} {
			<-acq.Done()
			if err := acq.Err(); !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := c.Semaphore("/other", 2, coordinator.AsKazoo()).Resize(t.Context(), 3); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("Resize: %v", err)
		}
		if srv.Exists("/other") || srv.Exists("/another") {
			t.Error("something was made")
		}
	})
}

// TestAsKazooHasNoDowngrade: kazoo knows no reader in a writer's place.
func TestAsKazooHasNoDowngrade(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.AsKazoo())
		writer, _ := coordtest.Hold(t, rw.Write())
		if err := rw.Read().Acquire(writer.Context(t.Context())).Err(); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("a reader in the writer's place: %v", err)
		}
		again := coordtest.Connect(t, srv).Mutex("/again", coordinator.AsKazoo(), coordinator.Reentrant())
		outer, grant := coordtest.Hold(t, again)
		inner := again.Acquire(outer.Context(t.Context()))
		if g := coordtest.Soon(t, inner); g.Node != grant.Node {
			t.Errorf("entered again with %s, has %s", g.Node, grant.Node)
		}
	})
}

// TestAKazooQueueIsShown: Queue reads kazoo's names whatever the handle is.
func TestAKazooQueueIsShown(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, a.ReadWrite(lockPath, coordinator.AsKazoo()).Read())
		coordtest.Hold(t, b.ReadWrite(lockPath, coordinator.AsKazoo()).Read())
		coordtest.Queue(b.ReadWrite(lockPath, coordinator.AsKazoo()).Write())
		for _, l := range []*coordinator.Lock{a.ReadWrite(lockPath, coordinator.AsKazoo()).Read(), a.ReadWrite(lockPath).Write()} {
			got, err := l.Queue(t.Context())
			var kinds []events.Kind
			for _, c := range got {
				kinds = append(kinds, c.Kind)
			}
			if want := []events.Kind{events.KindKazooRead, events.KindKazooRead, events.KindKazooLock}; err != nil || !slices.Equal(kinds, want) {
				t.Errorf("%v, %v", kinds, err)
			}
		}
	})
}
