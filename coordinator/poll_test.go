package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// How many reads walks cost, and what repeated walks show of a large tree.

// readRate bounds the reads of a process per second. After an idle time, mostRead may be
// sent in one second.
const (
	readRate = session.DefaultReadRate
	mostRead = readRate + readRate/10
)

// reads records when a server received a list or a read, and how often each path was
// listed.
type reads struct {
	mu     sync.Mutex
	at     []time.Time
	listed map[string]int
}

func readsOf(srv *zktest.Server) *reads {
	r := &reads{listed: map[string]int{}}
	srv.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op == zktest.OpGetChildren2 || q.Op == zktest.OpGetData {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.at = append(r.at, time.Now())
			if q.Op == zktest.OpGetChildren2 {
				r.listed[q.Path]++
			}
		}
		return zktest.Pass()
	})
	return r
}

// count returns the number of reads so far, and resets it.
func (r *reads) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.at)
	r.at = nil
	clear(r.listed)
	return n
}

// most returns the largest number of reads within a second.
func (r *reads) most() (most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for first, last := 0, 0; last < len(r.at); last++ {
		for r.at[last].Sub(r.at[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// listings returns how often the directories were listed: the least and the most.
func (r *reads) listings(dirs []string) (least, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	least = len(r.at)
	for _, dir := range dirs {
		least, most = min(least, r.listed[dir]), max(most, r.listed[dir])
	}
	return least, most
}

// bare creates n directories without a lock, and returns their paths in order.
func bare(t *testing.T, srv *zktest.Server, n int) (paths []string) {
	t.Helper()
	for i := range n {
		paths = append(paths, fmt.Sprintf("/bare/%05d", i))
		eventstest.Must(t, srv.Create(paths[i], nil))
	}
	return paths
}

// glance is the result of one look.
type glance struct {
	paths []string // in the order of the tree
	ages  map[string]time.Duration
	took  time.Duration
}

func lookAt(t *testing.T, walk func(context.Context) iter.Seq2[events.LockInfo, error]) glance {
	t.Helper()
	began, l := time.Now(), glance{ages: map[string]time.Duration{}}
	seen := map[string]time.Time{}
	for info, err := range walk(t.Context()) {
		eventstest.Must(t, err)
		_, twice := seen[info.Path]
		expect(t, !twice, "a look yields %s twice", info.Path)
		seen[info.Path] = info.Seen
	}
	for at, when := range seen {
		l.ages[at] = time.Since(when)
	}
	l.paths, l.took = slices.Sorted(maps.Keys(seen)), time.Since(began)
	return l
}

// TestLookersOfAProcessShareItsReads: together they send no more reads than a single one
// may.
func TestLookersOfAProcessShareItsReads(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		dirs := bare(t, srv, 2000)
		grove(t, srv, 500)
		asked := readsOf(srv)
		began := time.Now()
		var lookers sync.WaitGroup
		for range 3 {
			c := coordtest.Connect(t, srv)
			lookers.Go(func() { expectEqual(t, len(pathsOfWalk(t, c, "/")), 500, "locks that a walk finds") })
			walk := c.Poll("/")
			lookers.Go(func() {
				for time.Since(began) < 10*time.Second {
					lookAt(t, walk)
				}
			})
		}
		lookers.Wait()
		all := len(asked.at)
		expect(t, asked.most() <= mostRead && all >= 9*readRate,
			"%d reads, up to %d in a second; want at most %d, and no idle time", all, asked.most(), mostRead)
		least, _ := asked.listings(dirs)
		expect(t, least >= 3, "a directory was listed %d times, want by each of three walks", least)
	})
}

// TestAQueueIsReadAtOnce: the bound applies to walks only. A walk that waits for its turn
// ends with its context.
func TestAQueueIsReadAtOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crowd(t, srv, 5000)
		c := coordtest.Connect(t, srv)
		bored := errors.New("bored")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := inBackground(func() (last error) {
			for _, err := range c.Locks(ctx, "/") {
				last = err
			}
			return last
		})
		time.Sleep(time.Second)
		began := time.Now()
		queue, err := c.Mutex(lockPath).Queue(t.Context())
		expect(t, err == nil && len(queue) == 5000, "the queue has %d contenders, %v; want 5000", len(queue), err)
		cancel(bored)
		expectError(t, <-ended, bored, "the walk")
		expect(t, time.Since(began) == 0, "both took %v, want them at once", time.Since(began))
	})
}

// TestPollGoesOnWhereItStopped, in a tree of many directories without a lock and a lock
// at each end. A look reads the known locks again. Each directory is listed once, and
// again only after the search has rested.
func TestPollGoesOnWhereItStopped(t *testing.T) {
	n := eventstest.Amount(6_000, 63_000)
	atFullRate, rest := time.Duration(n)*time.Second/readRate, time.Duration(n)*4*time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		dirs := bare(t, srv, n)
		eventstest.Must(t, srv.Create("/a/lock-0000000000", nil))
		eventstest.Must(t, srv.Create("/z/lock-0000000000", nil))
		asked, walk, began := readsOf(srv), coordtest.Connect(t, srv).Poll("/"), time.Now()
		for {
			l := lookAt(t, walk)
			if len(l.paths) == 0 || l.paths[0] != "/a" || l.took > 2*time.Second || l.ages["/a"] > 2*time.Second {
				t.Fatalf("%v after the first look one of %v yields %v, %v old; want /a, new", time.Since(began), l.took, l.paths, l.ages)
			}
			if least, _ := asked.listings(dirs); least > 0 && len(l.paths) == 2 {
				break
			}
			if time.Since(began) > 3*atFullRate {
				t.Fatalf("%v later the search is not over; it has found %v", time.Since(began), l.paths)
			}
			time.Sleep(time.Second)
		}
		took := time.Since(began)
		expect(t, took >= atFullRate-time.Second, "the search took %v, want at least %v", took, atFullRate)
		least, most := asked.listings(dirs)
		expect(t, least == 1 && most == 1, "in one search each is listed %d to %d times, want once", least, most)
		expect(t, asked.most() <= mostRead, "%d reads in a second, want at most %d", asked.most(), mostRead)
		asked.count()
		searched := time.Now()
		for time.Since(searched) < rest-2*time.Second {
			if l := lookAt(t, walk); len(l.paths) != 2 || l.took > 100*time.Millisecond || l.ages["/a"]+l.ages["/z"] > 0 {
				t.Fatalf("while the search rests a look of %v yields %v, %v old; want both locks, new", l.took, l.paths, l.ages)
			}
			time.Sleep(time.Second)
		}
		_, most = asked.listings(dirs)
		expect(t, most == 0, "a directory without a lock is listed %d times while the search rests, want 0", most)
		n, looks := asked.count(), int(rest/time.Second)
		expect(t, n <= 4*looks, "%d reads for two locks in %d looks, want four a look", n, looks)
		eventstest.Must(t, srv.Create(dirs[100]+"/lock-0000000000", nil))
		eventstest.Must(t, srv.Delete("/a/lock-0000000000"))
		for !slices.Equal(lookAt(t, walk).paths, []string{dirs[100], "/z"}) {
			if time.Since(searched) > rest+3*atFullRate {
				t.Fatalf("a new lock is not found within %v", time.Since(searched))
			}
			time.Sleep(time.Second)
		}
	})
}

// TestPollOfManyContenders has more contenders than one look can read. A lock is shown
// once all of its contenders are read.
func TestPollOfManyContenders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const contenders, locks = 3000, 3
		for lock := range locks {
			for i := range contenders {
				eventstest.Must(t, srv.Create(fmt.Sprintf("/long/%d/lock-%010d", lock, i), nil))
			}
		}
		asked, walk, began := readsOf(srv), coordtest.Connect(t, srv).Poll("/long"), time.Now()
		for len(lookAt(t, walk).paths) < locks {
			if time.Since(began) > time.Minute {
				t.Fatal("the locks are not shown within a minute")
			}
		}
		n, most := len(asked.at), asked.most()
		// The look that reads the last lock may end before it yields it. The next one reads
		// for another second.
		expect(t, n <= locks*contenders+mostRead && most <= mostRead,
			"%d reads, up to %d in a second; want about %d, and at most %d", n, most, locks*contenders, mostRead)
	})
}

// TestPollOfALoopThatIsLeft: the next look yields what the interrupted one did not, and
// goes on.
func TestPollOfALoopThatIsLeft(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		paths := grove(t, srv, 200)
		asked, walk := readsOf(srv), coordtest.Connect(t, srv).Poll("/grove")
		for range 5 {
			for info, err := range walk(t.Context()) {
				eventstest.Must(t, err)
				if info.Path == paths[20] {
					break
				}
			}
		}
		l := lookAt(t, walk)
		expect(t, slices.Equal(l.paths, paths),
			"after five looks that were left the next one yields %d locks, want %d", len(l.paths), len(paths))
		least, most := asked.listings(paths)
		expect(t, least >= 1 && most <= 7,
			"the locks were listed %d to %d times, want once by the search, and again only if known", least, most)
		eventstest.Must(t, srv.Delete(paths[7]+"/lock-0000000000"))
		synctest.Wait()
		for range 2 {
			l = lookAt(t, walk)
		}
		expect(t, slices.Equal(l.paths, slices.Delete(paths, 7, 8)), "with one gone %d are yielded", len(l.paths))
	})
}

// TestWhatPollYieldsIsTheCallers: a caller that overwrites its result does not change
// later looks, whether they read the lock again or yield it as last seen.
func TestWhatPollYieldsIsTheCallers(t *testing.T) {
	for _, watched := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.Queue(c.Mutex(lockPath), named("waiter"))
			walk := c.Poll("/locks")
			ctx := session.WithWatched(t.Context(), func(string) bool { return watched })
			for look := range 3 {
				n := 0
				for lock, err := range walk(ctx) {
					eventstest.Must(t, err)
					n++
					if all := lock.Contenders; len(all) != 2 || string(all[1].Data) != "waiter" {
						t.Fatalf("watched %v, look %d: %+v, want two, and the data of the second", watched, look, all)
					}
					clear(lock.Contenders[1].Data)
					clear(lock.Contenders)
				}
				expect(t, n == 1, "watched %v, look %d: %d locks, want 1", watched, look, n)
			}
		})
	}
}

// TestPollYieldsAWatchedLock that it leaves out, although the watch ends during the look.
func TestPollYieldsAWatchedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex(lockPath))
		walk, asked := c.Poll("/locks"), 0
		watched := session.WithWatched(t.Context(), func(string) bool {
			asked++
			return asked == 1
		})
		for _, ctx := range []context.Context{t.Context(), watched} {
			var paths []string
			for l, err := range walk(ctx) {
				eventstest.Must(t, err)
				paths = append(paths, l.Path)
			}
			expect(t, len(paths) == 1, "after %d questions about the watch, it yields %q, want the lock", asked, paths)
		}
	})
}

// TestPollAfterALookThatStopped, because its loop was left or its context has ended: the
// next one reads everything anew.
func TestPollAfterALookThatStopped(t *testing.T) {
	for _, left := range []bool{true, false} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			coordtest.Hold(t, c.Mutex("/locks/a"))
			old, _ := coordtest.Hold(t, c.Mutex("/locks/b"))
			walk := c.Poll("/locks")
			ctx, end := context.WithCancel(t.Context())
			defer end()
			for _, err := range walk(ctx) {
				if end(); left {
					eventstest.Must(t, err)
					break
				}
			}
			old.Release()
			now := map[string]string{}
			for _, path := range []string{"/locks/b", "/locks/x"} {
				_, grant := coordtest.Hold(t, c.Mutex(path))
				now[path] = grant.Node
			}
			time.Sleep(time.Hour)
			for l, err := range walk(t.Context()) {
				eventstest.Must(t, err)
				if want, is := now[l.Path]; is && len(l.Contenders) == 1 && l.Contenders[0].Node == want {
					delete(now, l.Path)
				}
			}
			expect(t, len(now) == 0, "the look after one that stopped (left: %v) does not yield %v", left, now)
		})
	}
}
