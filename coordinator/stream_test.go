package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// tally is a reader of a stream that only counts, as for metrics.
type tally struct {
	mu     sync.Mutex
	grants map[uint64]events.Grant
	ends   map[uint64]error
}

func (y *tally) read(news <-chan events.Event) {
	for ev := range news {
		y.mu.Lock()
		switch ev := ev.(type) {
		case events.Grant:
			y.grants[ev.ID] = ev
		case events.Ended:
			y.ends[ev.ID] = ev.Err
		case events.Lost:
			y.ends[ev.ID] = ev.Err
		}
		y.mu.Unlock()
	}
}

func (y *tally) counts() (grants, ends int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.grants), len(y.ends)
}

// turnedAway has callers ask for a lock each, and turn away when all are granted: they read no Grant, and rely on the end of their
// context. It returns how many of the locks are held after settled.
func turnedAway(t *testing.T, c *coordinator.Coordinator, y *tally, settled func()) (held int) {
	t.Helper()
	const callers = 40
	gone := errors.New("the request was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	var all []*coordinator.Acquisition
	for i := range callers {
		all = append(all, c.Mutex(fmt.Sprint("/requests/", i)).Acquire(ctx))
	}
	eventstest.Eventually(t, "each Grant was read on the stream", func() bool {
		grants, _ := y.counts()
		return grants == callers
	}, func() string { return fmt.Sprint(y.counts()) })
	cancel(gone)
	settled()
	for _, a := range all {
		if a.Valid() {
			held++
			a.Release()
		} else if err := a.Err(); coordtest.IsClosed(a.Done()) && !errors.Is(err, gone) {
			t.Errorf("an acquisition with a cancelled wait ended with %v, want %v", err, gone)
		}
	}
	return held
}

// TestAPassiveStreamTakesNothing: a program that reads the stream passively for its metrics changes nothing for callers with
// contexts that end before they have read their Grant. If the stream is not passive all these locks stay held.
func TestAPassiveStreamTakesNothing(t *testing.T) {
	for what, test := range map[string]struct {
		options []coordinator.StreamOption
		held    int
	}{
		"passive":     {[]coordinator.StreamOption{coordinator.Passive()}, 0},
		"not passive": {[]coordinator.StreamOption{nil}, 40},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				y := &tally{grants: map[uint64]events.Grant{}, ends: map[uint64]error{}}
				news := c.Events(t.Context(), test.options...)
				go y.read(news)
				held := turnedAway(t, c, y, func() { time.Sleep(time.Minute) })
				if held != test.held {
					t.Errorf("a minute after 40 waits have ended %d locks are held, want %d", held, test.held)
				}
				time.Sleep(time.Second)
				if _, ends := y.counts(); ends != 40 || len(srv.Children("/requests/0")) > 0 {
					t.Errorf("when all is over the stream has told %d ends, and there are %q; want 40, and no node",
						ends, srv.Children("/requests/0"))
				}
			})
		})
	}
}

func TestRealPassiveStreamTakesNothing(t *testing.T) {
	eventstest.NeedsServers(t)
	c := coordtest.ConnectReal(t, ensemble.Start(t, 1).Connect())
	y := &tally{grants: map[uint64]events.Grant{}, ends: map[uint64]error{}}
	news := c.Events(t.Context(), coordinator.Passive())
	go y.read(news)
	held := turnedAway(t, c, y, func() {
		eventstest.Eventually(t, "each end was read on the stream", func() bool {
			_, ends := y.counts()
			return ends == 40
		}, func() string { return fmt.Sprint(y.counts()) })
	})
	if held != 0 {
		t.Errorf("when 40 waits have ended %d locks are held, want none", held)
	}
}

// ear is a hook that notes what it hears.
type ear struct {
	mu       sync.Mutex
	acquired []coordinator.AcquireInfo
	contexts []context.Context
	heard    []events.Event
	requests []coordinator.RequestInfo
	leases   []coordinator.LeaseInfo
}

func (e *ear) OnAcquire(ctx context.Context, info coordinator.AcquireInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acquired, e.contexts = append(e.acquired, info), append(e.contexts, ctx)
}

func (e *ear) OnEvent(event events.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, event)
}

func (e *ear) OnRequest(info coordinator.RequestInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, info)
}

func (e *ear) OnLease(info coordinator.LeaseInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases = append(e.leases, info)
}

// kinds are the types of the events, in order.
func (e *ear) kinds() (kinds []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.heard {
		kinds = append(kinds, reflect.TypeOf(ev).Name())
	}
	return kinds
}

// told counts the requests with an operation and an error.
func (e *ear) told(op string, err error) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.Op == op && errors.Is(r.Err, err) && (err != nil || r.Err == nil) {
			n++
		}
	}
	return n
}

// failed counts the requests with an error.
func (e *ear) failed() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.Err != nil {
			n++
		}
	}
	return n
}

var (
	_ coordinator.HookAcquire = (*ear)(nil)
	_ coordinator.HookEvent   = (*ear)(nil)
	_ coordinator.HookRequest = (*ear)(nil)
	_ coordinator.HookLease   = (*ear)(nil)
)

// TestHooksHearWhatIsAskedFor: each acquisition, with the caller's context, before any of its events.
func TestHooksHearWhatIsAskedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		rw, kazoo := c.ReadWrite("/rw"), c.ReadWrite("/kazoo", coordinator.AsKazoo())
		for _, test := range []struct {
			a    *coordinator.Acquisition
			want coordinator.AcquireInfo
		}{
			{c.Mutex("/mutex").Acquire(ctx), coordinator.AcquireInfo{Path: "/mutex", Kind: "mutex"}},
			{c.Mutex("/m/kazoo", coordinator.AsKazoo()).Acquire(ctx), coordinator.AcquireInfo{Path: "/m/kazoo", Kind: "mutex"}},
			{c.Mutex("/try").Acquire(ctx, coordinator.Try()), coordinator.AcquireInfo{Path: "/try", Kind: "mutex", Try: true}},
			{rw.Read().Acquire(ctx), coordinator.AcquireInfo{Path: "/rw", Kind: "read"}},
			{rw.Write().Acquire(ctx), coordinator.AcquireInfo{Path: "/rw", Kind: "write"}},
			{kazoo.Read().Acquire(ctx), coordinator.AcquireInfo{Path: "/kazoo", Kind: "read"}},
			{kazoo.Write().Acquire(ctx), coordinator.AcquireInfo{Path: "/kazoo", Kind: "write"}},
			{c.Unfair("/unfair").Acquire(ctx), coordinator.AcquireInfo{Path: "/unfair", Kind: "unfair"}},
			{c.Election("/e").Campaign(ctx), coordinator.AcquireInfo{Path: "/e", Kind: "election"}},
			{c.Election("/ke", coordinator.AsKazoo()).Campaign(ctx), coordinator.AcquireInfo{Path: "/ke", Kind: "election"}},
			{c.Semaphore("/s", 3).Acquire(ctx, coordinator.WithPermits(2)), coordinator.AcquireInfo{Path: "/s", Kind: "semaphore", Permits: 2}},
			{c.Multi(c.Mutex("/a"), c.Mutex("/b")).Acquire(ctx), coordinator.AcquireInfo{Path: "/a", Kind: "multi"}},
			{c.Multi().Acquire(ctx), coordinator.AcquireInfo{Kind: "multi"}},
			{c.Mutex("bad").Acquire(ctx), coordinator.AcquireInfo{Path: "bad", Kind: "mutex"}},
		} {
			test.want.ID = test.a.ID()
			n := len(hook.acquired) - 14 + int(test.a.ID()) // they are asked for one after the other
			if got := hook.acquired[n-1]; got != test.want {
				t.Errorf("the hook hears %+v, want %+v", got, test.want)
			}
			if got := hook.contexts[n-1].Value(key{}); got != "the caller's" {
				t.Errorf("%s: the context has the value %v, want that of the caller", test.want.Kind, got)
			}
			test.a.Release()
		}
	})
}

// TestHooksHearAllEventsAndTakeNothing: a Grant that only a hook has heard of is taken back at the end of the wait.
func TestHooksHearAllEventsAndTakeNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c, other := coordtest.Connect(t, srv, coordinator.WithHooks(hook)), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		ctx, cancel := context.WithCancel(t.Context())
		a := c.Mutex(lockPath).Acquire(ctx)
		synctest.Wait()
		eventstest.Must(t, srv.Expire(c.SessionID()))
		time.Sleep(5 * time.Second)
		holder.Release()
		synctest.Wait()
		if !a.Valid() {
			t.Fatal("behind the holder the waiter is not granted")
		}
		cancel()
		time.Sleep(time.Second)
		if a.Valid() || !errors.Is(a.Err(), context.Canceled) {
			t.Errorf("when the wait has ended: held %v, Err %v; want it taken back", a.Valid(), a.Err())
		}
		want := []string{"Connected", "Queued", "Suspended", "SessionExpired", "Connected", "Requeued", "Queued", "Grant", "Ended"}
		if got := hook.kinds(); !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, swapped(want, 4)) {
			t.Errorf("the hook hears %q, want %q", got, want)
		}
	})
}

// swapped has the two from i on in the other order.
func swapped(all []string, i int) []string {
	all = append([]string(nil), all...)
	all[i], all[i+1] = all[i+1], all[i]
	return all
}

// TestHooksHearOfRequests: as many as the server got, with the outcome of each, and its server.
func TestHooksHearOfRequests(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		before := hook.failed() // the first create has found no directory
		_, err := a.Txn(t.Context(), &zk.CheckVersionRequest{Path: "/missing"})
		if err == nil {
			t.Fatal("a transaction on a node that is not there is executed")
		}
		synctest.Wait() // a probe may be on its way at that instant
		for _, op := range []zktest.Op{zktest.OpConnect, zktest.OpMulti, zktest.OpPing, zktest.OpGetData} {
			hook.mu.Lock()
			n := 0
			for _, r := range hook.requests {
				if r.Op == op.String() {
					n++
				}
			}
			hook.mu.Unlock()
			if want := srv.Requests(op); n != want || n == 0 {
				t.Errorf("the hook has heard of %d requests of the kind %v, want %d as the server has had", n, op, want)
			}
		}
		hook.mu.Lock()
		for _, r := range hook.requests {
			if r.Server != srv.Addr() || r.Bytes < 24 || r.Duration < 0 {
				t.Errorf("the hook hears %+v, want the server %s, and its bytes", r, srv.Addr())
			}
		}
		hook.mu.Unlock()
		if n := hook.failed() - before; n != 1 {
			t.Errorf("when one transaction was refused %d requests have failed, want 1", n)
		}
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpExists {
				return zktest.Swallow()
			}
			return zktest.Pass()
		})
		looking := make(chan error, 1)
		go func() {
			_, err := c.Mutex(grant.Path).Queue(t.Context())
			looking <- err
		}()
		time.Sleep(time.Second)
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		time.Sleep(5 * time.Second)
		if err := <-looking; err != nil {
			t.Errorf("Queue returns %v, want nil", err)
		}
		if n := hook.told("connect", nil); n != 2 {
			t.Errorf("when the connection was cut once the hook has heard of %d handshakes, want 2", n)
		}
	})
}

// TestHooksHearOfTheLease: of each deadline, which is the acquisition's, and once that the lease has run out.
func TestHooksHearOfTheLease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		synctest.Wait() // a probe may be answered at that instant
		hook.mu.Lock()
		var last coordinator.LeaseInfo
		for _, l := range hook.leases {
			if !l.Deadline.After(last.Deadline) || l.Session != c.SessionID() || l.RanOut {
				t.Errorf("after %+v the hook hears %+v, want a later deadline of session 0x%x", last, l, c.SessionID())
			}
			last = l
		}
		n := len(hook.leases)
		hook.mu.Unlock()
		if deadline := a.Deadline(); !last.Deadline.Equal(deadline) || n < 10 {
			t.Errorf("a minute later the hook has heard of %d deadlines and %v at last, want that of the acquisition, %v", n, last.Deadline, deadline)
		}
		srv.Mute(c.SessionID(), true)
		<-a.Lost()
		hook.mu.Lock()
		out := hook.leases[len(hook.leases)-1]
		hook.mu.Unlock()
		if !out.RanOut || time.Now().Before(out.Deadline) {
			t.Errorf("when the lock is lost the last that the hook has heard is %+v, want that the lease ran out", out)
		}
		srv.Mute(c.SessionID(), false)
	})
}

// deaf hears nothing.
type deaf struct{}

func TestAHookThatHearsNothingIsRefused(t *testing.T) {
	for _, test := range []struct {
		hooks []coordinator.Hook
		want  error
	}{
		{nil, nil},
		{[]coordinator.Hook{&ear{}}, nil},
		{[]coordinator.Hook{&ear{}, deaf{}}, coordinator.ErrInvalid},
		{[]coordinator.Hook{nil}, coordinator.ErrInvalid},
		{[]coordinator.Hook{ear{}}, coordinator.ErrInvalid}, // the methods are the pointer's, which is the mistake
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithHooks(), coordinator.WithHooks(test.hooks...))
			if !errors.Is(err, test.want) || err != nil && test.want == nil {
				t.Errorf("with the hooks %T Connect returns %v, want %v", test.hooks, err, test.want)
			}
			if err == nil {
				eventstest.Must(t, c.Close())
			}
		})
	}
}

// idle does nothing.
type idle struct{}

func (idle) OnAcquire(context.Context, coordinator.AcquireInfo) {}
func (idle) OnEvent(events.Event)                               {}

// TestHooksCostNoAllocation: an acquisition takes as many allocations with a hook as without one, so without one nothing is made
// for it. The allocations of requests and events are tested where they are made.
func TestHooksCostNoAllocation(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cost := func(c *coordinator.Coordinator) float64 {
			lock, ctx := c.Mutex("no path"), t.Context()
			return testing.AllocsPerRun(1000, func() { lock.Acquire(ctx) }) // and ends at once
		}
		without, with := cost(coordtest.Connect(t, srv)), cost(coordtest.Connect(t, srv, coordinator.WithHooks(idle{})))
		if without == 0 || with != without {
			t.Errorf("an acquisition takes %v allocations without hooks and %v with one, want the same", without, with)
		}
	})
}

func TestRealHooks(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	hook := &ear{}
	c := coordtest.ConnectReal(t, e.Connect(), coordinator.WithHooks(hook))
	ctx, cancel := context.WithCancel(t.Context())
	a := c.Mutex(lockPath).Acquire(ctx)
	eventstest.Eventually(t, "the hook hears of the Grant", func() bool {
		kinds := hook.kinds()
		return kinds[len(kinds)-1] == "Grant"
	})
	cancel()
	if err := coordtest.EndOf(t, a); !errors.Is(err, context.Canceled) {
		t.Errorf("an acquisition of which only a hook knows ends with %v, want the cause of its context", err)
	}
	b, _ := coordtest.Hold(t, c.Mutex(lockPath))
	before := hook.failed()
	if _, err := b.Txn(t.Context(), &zk.CheckVersionRequest{Path: "/missing"}); err == nil {
		t.Error("a transaction on a node that is not there is executed")
	}
	if n := hook.failed() - before; n != 1 {
		t.Errorf("when one transaction was refused %d requests have failed, want 1", n)
	}
	b.Release()
	eventstest.Must(t, coordtest.EndOf(t, b))
	want := []string{"Connected", "Grant", "Ended", "Grant", "Ended"}
	if got := hook.kinds(); !reflect.DeepEqual(got, want) {
		t.Errorf("the hook hears %q, want %q", got, want)
	}
	if hook.told("connect", nil) != 1 || hook.told("multi", nil) == 0 || hook.told("delete", nil) == 0 {
		t.Errorf("the hook hears of the requests %+v, want the handshake, transactions and the delete", hook.requests)
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for _, r := range hook.requests {
		if r.Server != e.Addr(0) {
			t.Errorf("a request went to %s, want %s", r.Server, e.Addr(0))
		}
	}
	if len(hook.leases) == 0 || len(hook.acquired) != 2 {
		t.Errorf("the hook hears of %d deadlines and %d acquisitions, want some and 2", len(hook.leases), len(hook.acquired))
	}
}

// page is what a handler has written.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// lines are the lines about locks and sessions. Numbers that differ each time are left out. So are lines about connections, and
// about a probe at the moment in which its node is removed.
func (p *page) lines() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changing := regexp.MustCompile(`time=\S+ |session=0x[0-9a-f]+ ?|epoch=\d+ ?|node=\S+ |server=\S+|deadline=\S+`)
	for line := range strings.Lines(p.text.String()) {
		if !slices.ContainsFunc([]string{"client: ", "msg=connected", "connection lost", "probe failed"}, func(of string) bool { return strings.Contains(line, of) }) {
			lines = append(lines, strings.TrimSpace(changing.ReplaceAllString(line, "")))
		}
	}
	return lines
}

func slogTo(p *page, level slog.Level) coordinator.Option {
	return coordinator.WithSlog(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level}))
}

// TestTheLogTellsTheLifeOfLocks: the info level is about sessions and elections, the debug level about each lock, in fields that a
// person can read. The token is the Grant's.
func TestTheLogTellsTheLifeOfLocks(t *testing.T) {
	for level, lines := range map[slog.Level][]string{
		slog.LevelDebug: {
			`level=INFO msg="session established" timeout=10s`,
			`level=DEBUG msg="lock asked for" path=/locks/reindex id=1 kind=mutex try=false`,
			`level=DEBUG msg="lock granted" path=/locks/reindex id=1 token=T1 waited=0s`,
			`level=DEBUG msg="lock asked for" path=/locks/reindex id=2 kind=mutex try=false`,
			`level=DEBUG msg="lock queued" path=/locks/reindex id=2 ahead=1`,
			`level=DEBUG msg="lock released" path=/locks/reindex id=1 token=T1 waited=0s held=1m0s`,
			`level=DEBUG msg="lock granted" path=/locks/reindex id=2 token=T2 waited=1m0s`,
			`level=DEBUG msg="lock asked for" path=/locks/reindex id=3 kind=mutex try=false`,
			`level=DEBUG msg="lock queued" path=/locks/reindex id=3 ahead=1`,
			`level=DEBUG msg="lock given up" path=/locks/reindex id=3 error="context canceled" waited=1m0s`,
			`level=WARN msg="session expired"`,
			`level=WARN msg="lock lost" path=/locks/reindex id=2 token=T2 reason="session expired" held=2m0s`,
			`level=INFO msg="session established" timeout=10s`,
			`level=INFO msg="leadership asked for" path=/service/leader id=4 kind=election try=false`,
			`level=INFO msg="leadership granted" path=/service/leader id=4 token=T4 waited=0s`,
			`level=INFO msg="leadership wanted back" path=/service/leader id=4`,
			`level=WARN msg="leadership lost" path=/service/leader id=4 token=T4 reason=revoked held=1m0s`,
			`level=DEBUG msg="lock asked for" path=none id=5 kind=mutex try=false`,
			`level=DEBUG msg="lock given up" path=none id=5 error="zkgrant: malformed path: \"none\" does not start with a slash" waited=0s`,
			`level=INFO msg="session closed" confirmed=true`,
		},
		slog.LevelInfo: {
			`level=INFO msg="session established" timeout=10s`,
			`level=WARN msg="session expired"`,
			`level=WARN msg="lock lost" path=/locks/reindex id=2 token=T2 reason="session expired" held=2m0s`,
			`level=INFO msg="session established" timeout=10s`,
			`level=INFO msg="leadership asked for" path=/service/leader id=4 kind=election try=false`,
			`level=INFO msg="leadership granted" path=/service/leader id=4 token=T4 waited=0s`,
			`level=INFO msg="leadership wanted back" path=/service/leader id=4`,
			`level=WARN msg="leadership lost" path=/service/leader id=4 token=T4 reason=revoked held=1m0s`,
			`level=INFO msg="session closed" confirmed=true`,
		},
	} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				written := &page{}
				c := coordtest.Connect(t, srv, slogTo(written, level))
				first, one := coordtest.Hold(t, c.Mutex(lockPath))
				synctest.Wait() // the log tells of it after the channel
				second := coordtest.Queue(c.Mutex(lockPath))
				time.Sleep(time.Minute)
				first.Release()
				two := coordtest.Soon(t, second)
				time.Sleep(time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				c.Mutex(lockPath).Acquire(ctx)
				time.Sleep(time.Minute)
				cancel()
				synctest.Wait()
				eventstest.Must(t, srv.Expire(c.SessionID()))
				time.Sleep(5 * time.Second)
				term := c.Election(electionPath, coordinator.Revocable()).Campaign(t.Context())
				four := coordtest.Soon(t, term)
				time.Sleep(time.Minute)
				eventstest.Must(t, c.Revoke(t.Context(), electionPath, 0))
				synctest.Wait()
				c.Mutex("none").Acquire(t.Context())
				eventstest.Must(t, c.Close())
				want := slices.Clone(lines)
				for i, line := range want {
					for name, token := range map[string]int64{"T1": one.Token, "T2": two.Token, "T4": four.Token} {
						line = strings.ReplaceAll(line, "token="+name+" ", fmt.Sprintf("token=%d ", token))
					}
					want[i] = line
				}
				got := written.lines()
				// The end of the first and the grant of the second are told by two goroutines.
				if i := slices.IndexFunc(got, func(l string) bool { return strings.Contains(l, `"lock released"`) }); i > 0 && strings.Contains(got[i-1], `"lock granted"`) && strings.Contains(got[i-1], "id=2") {
					got[i-1], got[i] = got[i], got[i-1]
				}
				if !slices.Equal(got, want) {
					t.Errorf("on the level %v the log says\n%s\nwant\n%s", level, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// keeper is a handler that keeps its records.
type keeper struct {
	slog.Handler
	mu      *sync.Mutex
	records *[]slog.Record
}

func (k keeper) Handle(_ context.Context, r slog.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.records = append(*k.records, r)
	return nil
}

func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return keeper{k.Handler.WithAttrs(attrs), k.mu, k.records}
}

// TestSlogGetsValues and not their texts: a duration is one, and so is an error.
func TestSlogGetsValues(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var records []slog.Record
		k := keeper{slog.NewTextHandler(&page{}, &slog.HandlerOptions{Level: slog.LevelDebug}), &sync.Mutex{}, &records}
		c := coordtest.Connect(t, srv, coordinator.WithSlog(k))
		c.Mutex("none").Acquire(t.Context())
		k.mu.Lock()
		defer k.mu.Unlock()
		last := records[len(records)-1]
		got := map[string]slog.Value{}
		last.Attrs(func(a slog.Attr) bool {
			got[a.Key] = a.Value
			return true
		})
		if err, ok := got["error"].Any().(error); !ok || !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("the handler gets the error %v, want ErrPath", got["error"])
		}
		if kind := got["waited"].Kind(); kind != slog.KindDuration || last.Message != "lock given up" || !last.Time.Equal(time.Now()) {
			t.Errorf("the handler gets %v, want the end of now with a duration", last)
		}
	})
}

// TestTheLaterLoggerCounts; a nil handler logs nothing.
func TestTheLaterLoggerCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for what, test := range map[string]struct {
			options func(zap, slog coordinator.Option) []coordinator.Option
			zap     bool
			slog    bool
		}{
			"slog last": {func(zap, slog coordinator.Option) []coordinator.Option { return []coordinator.Option{zap, slog} }, false, true},
			"zap last":  {func(zap, slog coordinator.Option) []coordinator.Option { return []coordinator.Option{slog, zap} }, true, false},
			"nil last": {func(zap, _ coordinator.Option) []coordinator.Option {
				return []coordinator.Option{zap, coordinator.WithSlog(nil)}
			}, false, false},
		} {
			written := &page{}
			core, logs := observer.New(zap.InfoLevel)
			coordtest.Connect(t, srv, test.options(coordinator.WithLogger(zap.New(core)), slogTo(written, slog.LevelInfo))...)
			if toZap, toSlog := logs.Len() > 0, len(written.lines()) > 0; toZap != test.zap || toSlog != test.slog {
				t.Errorf("%s: it is logged by zap: %v, by slog: %v; want %v and %v", what, toZap, toSlog, test.zap, test.slog)
			}
		}
	})
}

// TestALogThatIsOffCostsNothing: as many allocations as without a logger.
func TestALogThatIsOffCostsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cost := func(c *coordinator.Coordinator) float64 {
			lock, ctx := c.Mutex("no path"), t.Context()
			return testing.AllocsPerRun(1000, func() { lock.Acquire(ctx) }) // and ends at once
		}
		without, with := cost(coordtest.Connect(t, srv)), cost(coordtest.Connect(t, srv, slogTo(&page{}, slog.LevelInfo)))
		if with != without {
			t.Errorf("an acquisition takes %v allocations without a log and %v with one that does not tell of it, want the same", without, with)
		}
	})
}

func TestRealSlog(t *testing.T) {
	eventstest.NeedsServers(t)
	written := &page{}
	c := coordtest.ConnectReal(t, ensemble.Start(t, 1).Connect(), slogTo(written, slog.LevelDebug))
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
	a.Release()
	eventstest.Must(t, coordtest.EndOf(t, a))
	eventstest.Must(t, c.Close())
	got := strings.Join(written.lines(), "\n")
	for _, want := range []string{
		`level=INFO msg="session established" timeout=10s`,
		fmt.Sprintf(`level=DEBUG msg="lock granted" path=/locks/reindex id=1 token=%d waited=`, grant.Token),
		fmt.Sprintf(`level=DEBUG msg="lock released" path=/locks/reindex id=1 token=%d waited=`, grant.Token),
		`level=INFO msg="session closed" confirmed=true`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log of a lock that was held and released is\n%s\nwant a line with %s", got, want)
		}
	}
}
