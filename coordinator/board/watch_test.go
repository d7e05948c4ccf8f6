package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALockThatWasFoundIsWatched: the page hears of its changes soon, whatever its
// kind and however rare the searches for further locks are.
func TestALockThatWasFoundIsWatched(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other := connect(t, server)
		var all []*coordinator.Acquisition
		enter := func(lock interface {
			Acquire(context.Context, ...coordinator.AcquireOption) *coordinator.Acquisition
		}, who string,
		) {
			all = append(all, lock.Acquire(t.Context(), coordinator.Data([]byte(who))))
			synctest.Wait()
		}
		both := other.ReadWrite("/locks/rw")
		enter(other.Mutex("/locks/m"), "ann")
		enter(both.Read(), "ben")
		enter(other.Semaphore("/locks/s", 1), "cid")
		enter(other.Unfair("/locks/u"), "dan")
		p := visit(boardOf(t, c, WithInterval(time.Hour)), false)
		defer p.leave()
		time.Sleep(time.Hour + time.Minute) // the second look begins the watches
		enter(other.Mutex("/locks/m"), "eve")
		enter(both.Write(), "fay")
		enter(other.Semaphore("/locks/s", 1), "gus")
		all[3].Release()
		time.Sleep(2 * time.Second) // two probe intervals: a queue that changes twice is read twice
		if got, want := p.shows(), "/locks/m: ann* eve, /locks/rw: ben* fay, /locks/s: cid* gus"; got != want {
			t.Errorf("shortly after three joined and one left: %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		for _, a := range all[:3] {
			a.Release()
		}
		enter(other.Unfair("/locks/u"), "hal")
		time.Sleep(10 * time.Second)
		if got, want := p.shows(), "/locks/m: eve*, /locks/rw: fay*, /locks/s: gus*, /locks/u: hal*"; got != want {
			t.Errorf("after the holders left, and a new one came: %q, want %q", got, want)
		}
		got := strings.Split(p.timeline(), ", ")
		slices.Sort(got)
		want := "away, granted eve, granted fay, granted gus, granted hal, " +
			"left ann, left ben, left cid, left dan, queued eve, queued fay, queued gus"
		if strings.Join(got, ", ") != want {
			t.Errorf("timeline, sorted: %q, want %q", got, want)
		}
	})
}

// TestAWatchedLockIsReadNowAndThen, because a watch says nothing of a holder's new data,
// and nothing of locks below.
func TestAWatchedLockIsReadNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other := connect(t, server)
		ann := acquire(t, other, "/locks/a", "ann")
		asked := new(requests)
		p := visit(boardOf(t, connect(t, server, coordinator.WithHooks(asked))), false)
		defer p.leave()
		time.Sleep(time.Minute)
		asked.Store(0)
		time.Sleep(10 * time.Second)
		if n := asked.Load(); n > 40 { // a listing of /locks in each of 20 looks, and the session's own
			t.Errorf("%d requests in 10 s for one watched lock, want 40 at most", n)
		}
		eventstest.Must(t, ann.SetData(t.Context(), []byte("anna")))
		acquire(t, other, "/locks/a/b", "bob")
		time.Sleep(6 * time.Second)
		if got, want := p.shows(), "/locks/a/b: bob*, /locks/a: anna*"; got != want {
			t.Errorf("after new data, and a lock below: %q, want %q", got, want)
		}
		acquire(t, other, "/locks/a", "cid") // the watch has the data with which ann came
		time.Sleep(time.Second)
		if got, want := p.shows(), "/locks/a/b: bob*, /locks/a: anna* cid"; got != want {
			t.Errorf("after a waiter came: %q, want %q", got, want)
		}
	})
}

// TestLocksBeyondTheWatchedAreRead by each look.
func TestLocksBeyondTheWatchedAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other, b := connect(t, server), boardOf(t, c)
		const locks, most = 12, 5
		b.most = most
		for i := range locks {
			other.Mutex(fmt.Sprintf("/locks/%d", i)).Acquire(t.Context())
		}
		time.Sleep(10 * time.Second)
		p := visit(b, false)
		defer p.leave()
		time.Sleep(time.Minute)
		for i := range locks {
			other.Mutex(fmt.Sprintf("/locks/%d", i)).Acquire(t.Context())
		}
		time.Sleep(time.Minute)
		b.mu.Lock()
		watched, waiters := len(b.state.watched), 0
		b.mu.Unlock()
		for _, l := range p.locks {
			waiters += l.Waiters
		}
		if watched != most || waiters != locks {
			t.Errorf("%d locks are watched and %d waiters shown, want %d and %d", watched, waiters, most, locks)
		}
	})
}

// TestALockThatCannotBeWatchedIsRead: the watch has ended, and the looks go on.
func TestALockThatCannotBeWatchedIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other, b := connect(t, server), boardOf(t, c)
		acquire(t, other, "/locks/a", "ann")
		p := visit(b, false)
		defer p.leave()
		time.Sleep(time.Minute)
		b.mu.Lock()
		for _, w := range b.state.watched {
			w.over = true
		}
		b.mu.Unlock()
		acquire(t, other, "/locks/a", "bob")
		time.Sleep(time.Second)
		if got, want := p.shows(), "/locks/a: ann* bob"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
