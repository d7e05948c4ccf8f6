package board

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requests counts what a coordinator asks its server.
type requests struct{ atomic.Int64 }

func (r *requests) OnRequest(hooks.Request) { r.Add(1) }

// connect returns a coordinator that is closed with the test.
func connect(t *testing.T, server *zktest.Server, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	options = append(options, server.Option(), coordinator.WithSessionTimeout(10*time.Second))
	c, err := coordinator.Connect(t.Context(), server.Addr(), options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// inBubble runs a test in virtual time, with a server and a coordinator.
func inBubble(t *testing.T, test func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
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

// pageOf is an open page, without a browser.
type pageOf struct {
	leave context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	header  http.Header
	status  int
	wait    chan struct{} // not nil: each write waits for a value, or for a deadline
	overdue chan struct{} // closed by a write deadline in the past
	bytes   []int         // of each update
	updates []update
	locks   map[string]lockView
	moments []moment
}

// visit opens a page. A slow one reads only when told.
func visit(b *Board, slow bool) *pageOf {
	if slow {
		return visitAs(b, "/events", "", make(chan struct{}))
	}
	return visitAs(b, "/events", "")
}

// visitAs opens a page with an authorisation.
func visitAs(b *Board, at, authorization string, wait ...chan struct{}) *pageOf {
	ctx, leave := context.WithCancel(context.Background())
	p := &pageOf{leave: leave, ended: make(chan struct{}), header: http.Header{}, overdue: make(chan struct{}), locks: map[string]lockView{}}
	if len(wait) > 0 {
		p.wait = wait[0]
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

// last returns the latest update.
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

// timeline describes the moments.
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

func acquire(t *testing.T, c *coordinator.Coordinator, path, who string) *coordinator.Acquisition {
	t.Helper()
	a := c.Mutex(path, coordinator.Revocable()).Acquire(t.Context(), coordinator.Data([]byte(who)))
	synctest.Wait()
	return a
}

func TestAPageShowsChangesWithinASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		ann := acquire(t, c, "/locks/a", "ann")
		<-ann.Granted()
		p := visit(boardOf(t, c), false)
		defer p.leave()
		synctest.Wait()
		if got := p.shows(); got != "/locks/a: ann*" {
			t.Errorf("at first: %q", got)
		}
		bob := acquire(t, connect(t, server), "/locks/a", "bob")
		eve := acquire(t, connect(t, server), "/locks/b", "eve")
		<-eve.Granted()
		time.Sleep(time.Second)
		if got, want := p.shows(), "/locks/a: ann* bob, /locks/b: eve*"; got != want {
			t.Errorf("a second later: %q, want %q", got, want)
		}
		ann.Release()
		<-bob.Granted()
		time.Sleep(time.Second)
		eve.Release()
		time.Sleep(time.Second)
		if got, want := p.shows(), "/locks/a: bob*"; got != want {
			t.Errorf("after the release: %q, want %q", got, want)
		}
		if got, want := p.timeline(), "queued bob, granted eve, own left, granted bob, left eve"; got != want {
			t.Errorf("timeline: %q, want %q", got, want)
		}
		bob.Release()
	})
}

// TestWithInterval: a page hears of a change when that time lies between two looks, and
// not before.
func TestWithInterval(t *testing.T) {
	const between = time.Minute
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		p := visit(boardOf(t, c, WithInterval(between)), false)
		defer p.leave()
		synctest.Wait()
		acquire(t, c, "/locks/a", "ann")
		for wait, want := range map[time.Duration]string{between - time.Second: "", between + time.Second: "/locks/a: ann*"} {
			time.AfterFunc(wait, func() {
				if got := p.shows(); got != want {
					t.Errorf("%v after the first look the page shows %q, want %q", wait, got, want)
				}
			})
		}
		time.Sleep(2 * between)
	})
}

func TestTwentyPagesCostZooKeeperWhatOneCosts(t *testing.T) {
	const locks, seconds, mostReads = 200, 10, session.DefaultReadRate
	contenders := eventstest.Amount(20, 50)
	if eventstest.Raced {
		contenders = 10
	}
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		crowd := connect(t, server)
		for i := range locks {
			for j := range contenders {
				crowd.Mutex(fmt.Sprintf("/locks/%03d", i)).Acquire(t.Context(), coordinator.Data([]byte{byte('a' + j%26)}))
			}
		}
		time.Sleep(10 * time.Second)
		asked := new(requests)
		b := boardOf(t, connect(t, server, coordinator.WithHooks(asked)))
		count := func(viewers int) int64 {
			var all []*pageOf
			for range viewers {
				all = append(all, visit(b, false))
			}
			// The first looks read everything, the watches once more, at the rate and half of
			// the time; and no look begins where the count does.
			time.Sleep(time.Duration(4*locks*contenders)*time.Second/mostReads + 8*time.Second + 50*time.Millisecond)
			before := asked.Load()
			time.Sleep(seconds * time.Second)
			n := asked.Load() - before
			for _, p := range all {
				p.leave()
				<-p.ended
				if got := len(p.locks); got != locks {
					t.Errorf("a page shows %d locks, want %d", got, locks)
				}
				if first, last := p.bytes[0]+p.bytes[1], p.bytes[len(p.bytes)-1]; first > locks*mostInLane*400 || last > 1000 {
					t.Errorf("the first update has %d bytes, the last one, without a change, %d", first, last)
				}
			}
			return n
		}
		one, twenty := count(1), count(20)
		t.Logf("%d requests in %d s with one page, %d with 20", one, seconds, twenty)
		// Three times in the ten seconds each lock is listed and its holder read; looks and
		// the session's own requests are the rest.
		if most := int64(3*2*locks + 10*seconds); one > most || twenty > most {
			t.Errorf("%d requests with one page and %d with 20, want at most %d with either", one, twenty, most)
		}
		time.Sleep(time.Second) // the end of a look that was under way
		before := asked.Load()
		time.Sleep(10 * time.Second)
		if n := asked.Load() - before; n > 10 { // the session's own
			t.Errorf("%d requests in 10 s without a page, want none for the board", n)
		}
	})
}

func TestASlowPageHoldsUpNoOtherAndMissesWhatIsOutdated(t *testing.T) {
	const soon = time.Second + 2*rest // a queue that keeps changing is read once in a probe interval
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		slow, fast := visit(b, true), visit(b, false)
		defer slow.leave()
		defer fast.leave()
		for i := range 50 {
			a := acquire(t, c, "/locks/a", fmt.Sprint("ann", i))
			<-a.Granted()
			time.Sleep(soon)
			if got, want := fast.shows(), fmt.Sprintf("/locks/a: ann%d*", i); got != want {
				t.Fatalf("beside a slow page: %q, want %q", got, want)
			}
			a.Release()
			time.Sleep(soon)
		}
		last := acquire(t, c, "/locks/a", "last")
		<-last.Granted()
		time.Sleep(soon)
		slow.wait <- struct{}{} // what it was sent at first
		slow.wait <- struct{}{} // all that has happened since
		synctest.Wait()
		if got, want := slow.shows(), "/locks/a: last*"; got != want || slow.count() != 2 {
			t.Errorf("the slow page shows %q after %d updates, want %q after 2", got, slow.count(), want)
		}
		last.Release()
	})
}

func TestStreamsEndAtOnceWith(t *testing.T) {
	for name, end := range map[string]func(*Board, *coordinator.Coordinator){
		"the board":       func(b *Board, _ *coordinator.Coordinator) { b.Close() },
		"the coordinator": func(_ *Board, c *coordinator.Coordinator) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
				b := boardOf(t, c)
				pages := []*pageOf{visit(b, false), visit(b, true)}
				time.Sleep(5 * time.Second)
				ended := time.Now()
				end(b, c)
				for i, p := range pages {
					<-p.ended
					if took := time.Since(ended); took > 0 {
						t.Errorf("page %d: its stream ended after %v, want at once", i, took)
					}
					p.leave()
				}
				late := visit(b, false)
				<-late.ended
				if late.leave(); late.status != http.StatusServiceUnavailable {
					t.Errorf("a stream that is asked for later: status %d, want 503", late.status)
				}
			})
		})
	}
}

func TestWithoutAConnectionThePageSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		a := acquire(t, c, "/locks/a", "ann")
		<-a.Granted()
		p := visit(boardOf(t, c), false)
		defer p.leave()
		time.Sleep(time.Second)
		server.Down(true)
		time.Sleep(time.Second)
		if u := p.last(); u.State != "suspended" {
			t.Errorf("a second after the server went: state %q, want suspended", u.State)
		}
		time.Sleep(2 * patience)
		u := p.last()
		if got := p.shows(); u.Failed != "ZooKeeper does not answer" || got != "/locks/a: ann*" {
			t.Errorf("later: error %q, and %q is shown; want what was there, and the reason", u.Failed, got)
		}
		server.Down(false)
		time.Sleep(20 * time.Second)
		if u := p.last(); u.Failed != "" || u.State != "connected" {
			t.Errorf("with the server back: state %q, error %q", u.State, u.Failed)
		}
		if got := p.timeline(); !strings.Contains(got, "own suspended, own lost, own ") || !strings.Contains(got, "own connected") {
			t.Errorf("timeline %q, want that the connection and the lock were lost, and a new session", got)
		}
	})
}

func TestALeaseIsShownWhileItLasts(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		lease := new(Lease)
		c := connect(t, server, coordinator.WithHooks(lease))
		p := visit(boardOf(t, c, WithLease(lease)), false)
		defer p.leave()
		time.Sleep(3 * time.Second)
		last := func() leaseView { return *p.last().Lease }
		if l := last(); l.Of < 5000 || l.Of > 10_000 || l.Left < l.Of/4 {
			t.Errorf("a lease of a session of 10 s: %+v", l)
		}
		server.Mute(c.SessionID(), true)
		time.Sleep(9 * time.Second)
		if l := last(); l.Left > 1500 {
			t.Errorf("after 9 s of silence: %+v, want that almost nothing is left", l)
		}
		server.Mute(c.SessionID(), false)
	})
}

func TestWhatWasSeenIsForgottenAfterTheLastPage(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		a := acquire(t, c, "/locks/a", "ann")
		<-a.Granted()
		b := boardOf(t, c)
		known := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.state.locks) + len(b.state.order)
		}
		for range 3 {
			p := visit(b, false)
			time.Sleep(2 * patience)
			if got := p.shows(); got != "/locks/a: ann*" || known() != 2 {
				t.Errorf("an open page shows %q, and %d are known, want 2", got, known())
			}
			p.leave()
			<-p.ended
			time.Sleep(patience / 2) // it is closed and opened again
		}
		if known() == 0 {
			t.Error("what was seen is forgotten at once, want some time after")
		}
		if time.Sleep(patience); known() > 0 {
			t.Errorf("%d are known long after the last page, want none", known())
		}
		p := visit(b, false)
		defer p.leave()
		time.Sleep(time.Second)
		if got := p.timeline(); got != "away" || p.shows() != "/locks/a: ann*" {
			t.Errorf("opened again: timeline %q, locks %q; want one entry that says that there was no look", got, p.shows())
		}
		a.Release()
	})
}

func TestBadRootsAreRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		for _, root := range []string{"", "locks", "/locks/", "/zookeeper", "//"} {
			if _, err := New(c, root); !errors.Is(err, coordinator.ErrPath) {
				t.Errorf("New of %q: %v, want ErrPath", root, err)
			}
		}
		_ = c.Close()
		if _, err := New(c, "/"); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("New of a closed coordinator: %v, want ErrClosed", err)
		}
	})
}
