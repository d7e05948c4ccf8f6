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
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALockThatWasFoundIsWatched: the page receives its changes soon, whatever its kind,
// and however rare the searches for further locks are.
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
		p := visit(t, boardOf(t, c, WithInterval(time.Hour)), false)
		time.Sleep(time.Hour + time.Minute) // the second look starts the watches
		enter(other.Mutex("/locks/m"), "eve")
		enter(both.Write(), "fay")
		enter(other.Semaphore("/locks/s", 1), "gus")
		all[3].Release()
		time.Sleep(2 * time.Second) // two probe intervals: a queue that changes twice is read twice
		eventstest.Equal(t, p.shows(),
			"/locks/m: ann* eve, /locks/rw: ben* fay, /locks/s: cid* gus", "three joined, one left")
		time.Sleep(time.Minute)
		for _, a := range all[:3] {
			a.Release()
		}
		enter(other.Unfair("/locks/u"), "hal")
		time.Sleep(10 * time.Second)
		eventstest.Equal(t, p.shows(), "/locks/m: eve*, /locks/rw: fay*, /locks/s: gus*, /locks/u: hal*", "later")
		got := strings.Split(p.timeline(), ", ")
		slices.Sort(got)
		want := "away, granted eve, granted fay, granted gus, granted hal, " +
			"left ann, left ben, left cid, left dan, queued eve, queued fay, queued gus"
		eventstest.Equal(t, strings.Join(got, ", "), want, "timeline, sorted")
	})
}

// TestGrantsDuringAnOutageWereNotSeen: after it, the watches report them first, but not
// when they were.
func TestGrantsDuringAnOutageWereNotSeen(t *testing.T) {
	// The short one is over soon after the client has noticed it.
	for _, outage := range []time.Duration{12 * time.Second, time.Minute} {
		coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
			other, c := connect(t, server), connect(t, server)
			ann := acquire(t, other, "/locks/a", "ann")
			acquire(t, other, "/locks/a", "bob")
			cid := acquire(t, other, "/locks/c", "cid")
			p := visit(t, boardOf(t, c), false)
			time.Sleep(5 * time.Second)
			server.Mute(c.SessionID(), true)
			time.Sleep(time.Second)
			ann.Release()
			cid.Release()
			time.Sleep(outage - time.Second)
			server.Mute(c.SessionID(), false)
			time.Sleep(time.Minute)
			eventstest.Equal(t, p.shows(), "/locks/a: bob*", "after an outage")
			held := p.locks["/locks/a"].Contenders[0].Held
			eventstest.Expect(t, held == nil, "its grant was seen at %v, want unknown", held)
			for _, not := range []string{"granted", "left"} {
				eventstest.Expect(t, !strings.Contains(p.timeline(), not), "the timeline has %q: %s", not, p.timeline())
			}
			acquire(t, other, "/locks/a", "dan")
			time.Sleep(5 * time.Second)
			eventstest.Contains(t, p.timeline(), "queued dan", "the timeline afterwards")
		})
	}
}

// TestAnOutageEndsWhileNoPageIsOpen: changes are seen again when there is a page again.
func TestAnOutageEndsWhileNoPageIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other, b := connect(t, server), boardOf(t, c)
		ann := acquire(t, other, "/locks/a", "ann")
		acquire(t, other, "/locks/a", "bob")
		p := visit(t, b, false)
		time.Sleep(5 * time.Second)
		server.Mute(c.SessionID(), true)
		time.Sleep(9 * time.Second)
		p.end()
		server.Mute(c.SessionID(), false)
		time.Sleep(20 * time.Second)
		p = visit(t, b, false)
		time.Sleep(5 * time.Second)
		ann.Release()
		time.Sleep(5 * time.Second)
		eventstest.Contains(t, p.timeline(), "left ann, granted bob", "the timeline")
	})
}

// TestAWatchedLockIsReadNowAndThen, because a watch reports neither a holder's new data
// nor locks below the path.
func TestAWatchedLockIsReadNowAndThen(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
		other := connect(t, server)
		ann := acquire(t, other, "/locks/a", "ann")
		b, asked := watchedBoard(t, server)
		p := visit(t, b, false)
		time.Sleep(time.Minute)
		n := asked.in(10 * time.Second) // a listing of /locks in each of 20 looks, and the session's own
		eventstest.Expect(t, n <= 40, "%d requests in 10 s for one watched lock, want 40 at most", n)
		eventstest.Must(t, ann.SetData(t.Context(), []byte("anna")))
		acquire(t, other, "/locks/a/b", "bob")
		time.Sleep(6 * time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a/b: bob*, /locks/a: anna*", "after new data, and a lock below")
		acquire(t, other, "/locks/a", "cid") // the watch has ann's original data
		time.Sleep(time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a/b: bob*, /locks/a: anna* cid", "after a waiter came")
	})
}

// TestLocksBeyondTheWatchedAreRead by each look.
func TestLocksBeyondTheWatchedAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other, b := connect(t, server), boardOf(t, c)
		const locks, most = 12, 5
		b.most = most
		queue := func() {
			for i := range locks {
				other.Mutex(fmt.Sprintf("/locks/%d", i)).Acquire(t.Context())
			}
		}
		queue()
		time.Sleep(10 * time.Second)
		p := visit(t, b, false)
		time.Sleep(time.Minute)
		queue()
		time.Sleep(time.Minute)
		b.mu.Lock()
		watched, waiters := len(b.state.watched), 0
		b.mu.Unlock()
		for _, l := range p.locks {
			waiters += l.Waiters
		}
		eventstest.Expect(t, watched == most && waiters == locks,
			"%d locks are watched and %d waiters shown, want %d and %d", watched, waiters, most, locks)
	})
}

// TestALockThatCannotBeWatchedIsRead by the looks after its watch has ended.
func TestALockThatCannotBeWatchedIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		other, b := connect(t, server), boardOf(t, c)
		acquire(t, other, "/locks/a", "ann")
		p := visit(t, b, false)
		time.Sleep(time.Minute)
		b.mu.Lock()
		for _, w := range b.state.watched {
			w.over = true
		}
		b.mu.Unlock()
		acquire(t, other, "/locks/a", "bob")
		time.Sleep(time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: ann* bob", "without the watch")
	})
}

// TestALargeTreeIsShownAsItIsSearched: the page shows the locks found so far, live, and
// how far the search is. The board sends no more reads than a process may.
func TestALargeTreeIsShownAsItIsSearched(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
		nodes := eventstest.Amount(8_000, 63_000)
		for i := range nodes {
			eventstest.Must(t, server.Create(fmt.Sprintf("/locks/m/%05d", i), nil))
		}
		ann := acquire(t, connect(t, server), "/locks/a", "ann")
		acquire(t, connect(t, server), "/locks/y/z", "zoe")
		b, asked := watchedBoard(t, server)
		p, opened := visit(t, b, false), time.Now()
		time.Sleep(3 * time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: ann*", "3 s after it was opened")
		eventstest.Expect(t, p.last().Nodes != 0, "3 s after it was opened no node is searched, want some")
		ann.Release()
		time.Sleep(3 * time.Second)
		eventstest.Equal(t, p.shows(), "", "3 s after the release")
		for p.last().Nodes > 0 && time.Since(opened) < time.Hour {
			time.Sleep(time.Second)
		}
		searched := time.Since(opened)
		eventstest.Equal(t, p.shows(), "/locks/y/z: zoe*", "when the whole tree is searched")
		eventstest.Expect(t, searched <= 3*time.Duration(nodes)*time.Millisecond, "the search took %v", searched)
		n, most := asked.Load(), int64(searched.Seconds()+1)*session.DefaultReadRate
		eventstest.Expect(t, n <= most, "%d requests in %v, want at most %d", n, searched, most)
		n = asked.in(10 * time.Second)
		eventstest.Expect(t, n <= 10*2*10, "%d requests while the search rests, want a few for each look", n)
	})
}

// What a search has found is not called gone before the end of the look shows it.
func TestASearchIsOverWhenItsLocksAreShown(t *testing.T) {
	s := newState()
	s.searched(session.Progress{Nodes: 5})
	s.searched(session.Progress{Nodes: 7, Whole: true})
	eventstest.Equal(t, s.nodes, 5, "before the look has ended: nodes searched so far")
	s.apply(nil, 1, time.Now(), time.Now())
	eventstest.Equal(t, s.nodes, 0, "after it")
}
