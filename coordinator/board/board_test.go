package board

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type requests struct{ atomic.Int64 }

func (r *requests) OnRequest(hooks.Request) { r.Add(1) }

// in returns how many requests are sent within d.
func (r *requests) in(d time.Duration) int64 {
	before := r.Load()
	time.Sleep(d)
	return r.Load() - before
}

func connect(t *testing.T, server *zktest.Server, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), server.Addr(), append(options, server.Option())...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

func inBubble(t *testing.T, test func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator)) {
	t.Helper()
	coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
		test(t, server, connect(t, server))
	})
}

func boardOf(t *testing.T, c *coordinator.Coordinator, options ...Option) *Board {
	t.Helper()
	b, err := New(c, "/locks", append(options, nil)...) // a nil option changes nothing
	eventstest.Must(t, err)
	t.Cleanup(b.Close)
	return b
}

// watchedBoard returns a board with its own coordinator, and a counter of its requests.
func watchedBoard(t *testing.T, server *zktest.Server) (*Board, *requests) {
	t.Helper()
	asked := new(requests)
	return boardOf(t, connect(t, server, coordinator.WithHooks(asked))), asked
}

// pageOf is an open page without a browser.
type pageOf struct {
	leave context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	header  http.Header
	status  int
	wait    chan struct{} // not nil: each write waits for a value, or for a deadline
	overdue chan struct{} // closed by a write deadline in the past
	bytes   []int         // the size of each update
	updates []update
	locks   map[string]lockView
	moments []moment
}

// visit opens a page until the end of the test. A slow one reads only when the test lets
// it.
func visit(t *testing.T, b *Board, slow bool) *pageOf {
	t.Helper()
	return visitAs(t, b, "/events", "", slow)
}

func visitAs(t *testing.T, b *Board, at, authorization string, slow bool) *pageOf {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	p := &pageOf{leave: leave, ended: make(chan struct{}), overdue: make(chan struct{})}
	p.header, p.locks = http.Header{}, map[string]lockView{}
	if slow {
		p.wait = make(chan struct{})
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	r.Header.Set("Authorization", authorization)
	go func() {
		defer close(p.ended)
		b.ServeHTTP(p, r)
	}()
	return p
}

func (p *pageOf) Header() http.Header    { return p.header }
func (p *pageOf) WriteHeader(status int) { p.status = status }
func (p *pageOf) Flush()                 {}

func (p *pageOf) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		close(p.overdue)
	}
	return nil
}

func (p *pageOf) Write(text []byte) (int, error) {
	if p.wait != nil {
		select {
		case <-p.wait:
		case <-p.overdue:
			return 0, fmt.Errorf("overdue")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	data, ok := strings.CutPrefix(string(text), "data: ")
	if !ok {
		return len(text), nil // an error's text
	}
	var u update
	if err := json.Unmarshal([]byte(data), &u); err != nil {
		panic(err)
	}
	p.updates, p.bytes = append(p.updates, u), append(p.bytes, len(text))
	if u.Reset {
		clear(p.locks)
		p.moments = nil
	}
	for _, id := range u.Gone {
		delete(p.locks, id)
	}
	for _, text := range u.Locks {
		var l lockView
		if err := json.Unmarshal(text, &l); err != nil {
			panic(err)
		}
		p.locks[l.ID] = l
	}
	p.moments = append(p.moments, u.Moments...)
	return len(text), nil
}

func (p *pageOf) last() update {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.updates[len(p.updates)-1]
}

func (p *pageOf) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.updates)
}

// shows describes what the page shows: the holders and waiters of each lock.
func (p *pageOf) shows() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, l := range p.locks {
		text := l.Path + ":"
		for _, c := range l.Contenders {
			if text += " " + c.Data; c.Holding {
				text += "*"
			}
		}
		all = append(all, text)
	}
	return strings.Join(slices.Sorted(slices.Values(all)), ", ")
}

func (p *pageOf) timeline() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, m := range p.moments {
		text := m.What + " " + m.Who
		if m.Own {
			text = "own " + text
		}
		all = append(all, strings.TrimSpace(text))
	}
	return strings.Join(all, ", ")
}

// acquire returns an acquisition that has joined the queue, and hold one that is granted.
func acquire(t *testing.T, c *coordinator.Coordinator, path, who string) *coordinator.Acquisition {
	t.Helper()
	a := c.Mutex(path, coordinator.Revocable()).Acquire(t.Context(), coordinator.Data([]byte(who)))
	synctest.Wait()
	return a
}

func hold(t *testing.T, c *coordinator.Coordinator, path, who string) *coordinator.Acquisition {
	t.Helper()
	a := acquire(t, c, path, who)
	<-a.Granted()
	return a
}

// end leaves the page, and waits for the end of its request.
func (p *pageOf) end() {
	p.leave()
	<-p.ended
}

func TestAPageShowsChangesWithinASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		ann := hold(t, c, "/locks/a", "ann")
		p := visit(t, boardOf(t, c), false)
		synctest.Wait()
		eventstest.Equal(t, p.shows(), "/locks/a: ann*", "at first")
		bob := acquire(t, connect(t, server), "/locks/a", "bob")
		eve := hold(t, connect(t, server), "/locks/b", "eve")
		time.Sleep(time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: ann* bob, /locks/b: eve*", "a second later")
		ann.Release()
		<-bob.Granted()
		time.Sleep(time.Second)
		eve.Release()
		time.Sleep(time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: bob*", "after the release")
		eventstest.Equal(t, p.timeline(), "queued bob, granted eve, own left, granted bob, left eve", "timeline")
		bob.Release()
	})
}

// TestWithInterval is the time between two looks.
func TestWithInterval(t *testing.T) {
	const between = time.Minute
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		p := visit(t, boardOf(t, c, WithInterval(between)), false)
		synctest.Wait()
		acquire(t, c, "/locks/a", "ann")
		time.Sleep(between - time.Second)
		eventstest.Equal(t, p.shows(), "", "before the second look")
		time.Sleep(2 * time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: ann*", "after the second look")
	})
}

func TestTwentyPagesCostZooKeeperWhatOneCosts(t *testing.T) {
	const locks, seconds, mostReads = 200, 10, session.DefaultReadRate
	contenders := eventstest.Amount(20, 50)
	if eventstest.Raced {
		contenders = 10
	}
	coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
		crowd := connect(t, server)
		for i := range locks * contenders {
			data := coordinator.Data([]byte{byte('a' + i%26)})
			crowd.Mutex(fmt.Sprintf("/locks/%03d", i%locks)).Acquire(t.Context(), data)
		}
		time.Sleep(10 * time.Second)
		b, asked := watchedBoard(t, server)
		count := func(viewers int) int64 {
			var all []*pageOf
			for range viewers {
				all = append(all, visit(t, b, false))
			}
			// The first looks read everything, and the watches read it once more, at the
			// bounded rate and half of the time. The last 50 ms keep a look from
			// beginning just when the count does.
			time.Sleep(time.Duration(4*locks*contenders)*time.Second/mostReads + 8*time.Second + 50*time.Millisecond)
			n := asked.in(seconds * time.Second)
			for _, p := range all {
				p.end()
				eventstest.Equal(t, len(p.locks), locks, "locks on a page")
				first, last := p.bytes[0]+p.bytes[1], p.bytes[len(p.bytes)-1]
				eventstest.Expect(t, first <= locks*mostInLane*400 && last <= 1000,
					"the first update has %d bytes, the last one, without a change, %d", first, last)
			}
			return n
		}
		one, twenty := count(1), count(20)
		t.Logf("%d requests in %d s with one page, %d with 20", one, seconds, twenty)
		// In the ten seconds, each lock is listed and its holder read three times; the
		// rest are looks and the session's own requests.
		most := int64(3*2*locks + 10*seconds)
		eventstest.Expect(t, one <= most && twenty <= most,
			"%d requests with one page and %d with 20, want at most %d with either", one, twenty, most)
		time.Sleep(time.Second) // a look under way ends
		n := asked.in(10 * time.Second)
		eventstest.Expect(t, n <= 10, "%d requests without a page, want only the session's own", n)
	})
}

func TestASlowPageHoldsUpNoOtherAndMissesWhatIsOutdated(t *testing.T) {
	const soon = time.Second + 2*rest // a queue that keeps changing is read once in a probe interval
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		slow, fast := visit(t, b, true), visit(t, b, false)
		for i := range 50 {
			a := hold(t, c, "/locks/a", fmt.Sprint("ann", i))
			time.Sleep(soon)
			eventstest.Equal(t, fast.shows(), fmt.Sprintf("/locks/a: ann%d*", i), "beside a slow page")
			a.Release()
			time.Sleep(soon)
		}
		last := hold(t, c, "/locks/a", "last")
		time.Sleep(soon)
		slow.wait <- struct{}{} // the first update
		slow.wait <- struct{}{} // everything since then
		synctest.Wait()
		eventstest.Equal(t, slow.shows(), "/locks/a: last*", "the slow page")
		eventstest.Equal(t, slow.count(), 2, "updates of the slow page")
		last.Release()
	})
}

func TestStreamsEndAtOnceWith(t *testing.T) {
	for name, end := range map[string]func(*Board, *coordinator.Coordinator){
		"the board":       func(b *Board, _ *coordinator.Coordinator) { b.Close() },
		"the coordinator": func(_ *Board, c *coordinator.Coordinator) { _ = c.Close() },
	} {
		inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			b := boardOf(t, c)
			pages := []*pageOf{visit(t, b, false), visit(t, b, true)}
			time.Sleep(5 * time.Second)
			ended := time.Now()
			end(b, c)
			for i, p := range pages {
				<-p.ended
				eventstest.Equal(t, time.Since(ended), 0, "%s: the end of the stream of page %d", name, i)
			}
			late := visit(t, b, false)
			<-late.ended
			eventstest.Equal(t, late.status, http.StatusServiceUnavailable, "%s: a later stream", name)
		})
	}
}

func TestWithoutAConnectionThePageSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		hold(t, c, "/locks/a", "ann")
		p := visit(t, boardOf(t, c), false)
		time.Sleep(time.Second)
		server.Down(true)
		time.Sleep(time.Second)
		eventstest.Equal(t, p.last().State, "suspended", "a second after the server went")
		time.Sleep(2 * patience)
		eventstest.Equal(t, p.last().Failed, "ZooKeeper does not answer", "later")
		eventstest.Equal(t, p.shows(), "/locks/a: ann*", "later there is still")
		server.Down(false)
		time.Sleep(20 * time.Second)
		eventstest.Equal(t, p.last().Failed+p.last().State, "connected", "with the server back")
		for _, part := range []string{"own suspended, own lost, own ", "own connected"} {
			eventstest.Contains(t, p.timeline(), part, "the timeline")
		}
	})
}

// TestTheTimelineIsOfLocksBelowTheRoot: other locks of this process are not shown. A
// multi-lock is shown at its first member below the root.
func TestTheTimelineIsOfLocksBelowTheRoot(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		p := visit(t, boardOf(t, c), false)
		synctest.Wait()
		for _, path := range []string{"/private/a", "/locksmith", "/locks", "/locks/a"} {
			hold(t, c, path, "ann")
		}
		outside, inside := c.Mutex("/private/b"), []*coordinator.Lock{c.Mutex("/locks/b"), c.Mutex("/locks/c")}
		all := c.Multi(append(inside, outside)...).Acquire(t.Context())
		<-all.Granted()
		all.Release()
		<-all.Done()
		all = c.Multi(outside, inside[0]).Acquire(t.Context())
		<-all.Granted()
		all.Release()
		time.Sleep(3 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		paths := map[string]string{}
		for _, m := range p.moments {
			paths[m.What] += " " + m.Path
		}
		eventstest.Equal(t, paths["granted"], " /locks /locks/a /locks/b /locks/b", "the grants of this process")
		eventstest.Equal(t, paths["left"], " /locks/b /locks/b", "the ends")
	})
}

// TestTheEndsOfThisProcessAreShownOnce, also those of an earlier session.
func TestTheEndsOfThisProcessAreShownOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		hold(t, c, "/locks/a", "ann")
		acquire(t, c, "/locks/a", "bob")
		p := visit(t, boardOf(t, c), false)
		time.Sleep(3 * time.Second)
		eventstest.Must(t, server.Expire(c.SessionID()))
		time.Sleep(10 * time.Second)
		eventstest.Equal(t, p.shows(), "/locks/a: bob*", "in the next session")
		got := p.timeline()
		eventstest.Expect(t, strings.Count(got, "own lost") == 1 && !strings.Contains(got, "left"),
			"the timeline is %s, want one loss and nobody who left", got)
	})
}

func TestALeaseIsShownWhileItLasts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, server *zktest.Server) {
		lease := new(Lease)
		c := connect(t, server, coordinator.WithHooks(lease))
		p := visit(t, boardOf(t, c, WithLease(lease)), false)
		time.Sleep(3 * time.Second)
		l := *p.last().Lease
		eventstest.Expect(t, l.Of >= 5000 && l.Of <= 10_000 && l.Left >= l.Of/4, "the lease of 10 s: %+v", l)
		server.Mute(c.SessionID(), true)
		time.Sleep(9 * time.Second)
		l = *p.last().Lease
		eventstest.Expect(t, l.Left <= 1500, "after 9 s of silence: %+v, want that almost nothing is left", l)
		server.Mute(c.SessionID(), false)
	})
}

func TestWhatWasSeenIsForgottenAfterTheLastPage(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		a := hold(t, c, "/locks/a", "ann")
		b := boardOf(t, c)
		known := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.state.locks) + len(b.state.order)
		}
		for range 3 {
			p := visit(t, b, false)
			time.Sleep(2 * patience)
			eventstest.Equal(t, p.shows(), "/locks/a: ann*", "an open page")
			eventstest.Equal(t, known(), 2, "what is known with an open page")
			p.end()
			time.Sleep(patience / 2) // closed, and soon opened again
		}
		eventstest.Expect(t, known() != 0, "what was seen is forgotten at once, want some time after")
		time.Sleep(patience)
		eventstest.Equal(t, known(), 0, "what is known long after the last page")
		p := visit(t, b, false)
		time.Sleep(time.Second)
		eventstest.Equal(t, p.timeline(), "away", "opened again, there was no look")
		eventstest.Equal(t, p.shows(), "/locks/a: ann*", "opened again")
		a.Release()
	})
}

func TestBadRootsAreRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		for _, root := range []string{"", "locks", "/locks/", "/zookeeper", "//"} {
			_, err := New(c, root)
			eventstest.ErrorIs(t, err, coordinator.ErrPath, "New of %q", root)
		}
		_ = c.Close()
		_, err := New(c, "/")
		eventstest.ErrorIs(t, err, coordinator.ErrClosed, "New of a closed coordinator")
	})
}
