package zkprom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// play tells a state what happens, at times of its own.
type play struct {
	*state
	now time.Time
}

func newPlay(most int) *play { return &play{newState(most), time.Unix(1_000_000, 0)} }

func (p *play) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range descriptions() {
		to <- desc
	}
}

func (p *play) Collect(to chan<- prometheus.Metric) {
	for _, s := range p.snapshot(p.now) {
		to <- s.metric()
	}
}

func (p *play) passes(d time.Duration) { p.now = p.now.Add(d) }

func (p *play) asks(id uint64, kind, path string, more ...func(*coordinator.AcquireInfo)) {
	p.asksWith(context.Background(), id, kind, path, more...)
}

func (p *play) asksWith(ctx context.Context, id uint64, kind, path string, more ...func(*coordinator.AcquireInfo)) {
	info := coordinator.AcquireInfo{ID: id, Path: path, Kind: kind}
	for _, m := range more {
		m(&info)
	}
	p.acquire(ctx, p.now, p.at(path, "", false), info)
}

func (p *play) hears(all ...events.Event) {
	for _, event := range all {
		p.event(p.now, event)
	}
}

// gets is asks, and the Grant after a wait.
func (p *play) gets(id uint64, kind, path string, wait time.Duration) {
	p.asks(id, kind, path)
	p.passes(wait)
	p.hears(events.Grant{ID: id, Path: path, Node: fmt.Sprint(path, "/", id), Waited: wait})
}

func permits(n int) func(*coordinator.AcquireInfo) {
	return func(i *coordinator.AcquireInfo) { i.Permits = n }
}

func try(i *coordinator.AcquireInfo) { i.Try = true }

var errCause = errors.New("the caller's own cause")

// TestWhatHooksTell: for each story the values of the metrics that it is about. A name stands for all samples that begin with it.
func TestWhatHooksTell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		story func(*play)
		about []string // names with labels, or the beginning of them
		want  string
	}{
		{"a lock without a holder so far has counters of 0", func(p *play) { p.asks(1, "mutex", "/a") }, []string{"lost_total", "requeued", "revoked", "abandoned"}, `
			lost_total{lock="/a",reason="connection_suspended"} 0
			lost_total{lock="/a",reason="lease_ran_out"} 0
			lost_total{lock="/a",reason="node_removed"} 0
			lost_total{lock="/a",reason="revoked"} 0
			lost_total{lock="/a",reason="session_expired"} 0
			requeued_total{lock="/a"} 0
			revoked_total{lock="/a"} 0
			abandoned_total{lock="/a"} 0`},
		{"waiters", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.passes(10 * time.Second)
			p.asks(2, "mutex", "/a")
			p.hears(events.Queued{ID: 2, Ahead: 7}, events.Queued{ID: 1, Ahead: 3})
			p.passes(5 * time.Second)
		}, []string{"waiting", "held", "longest", "queue"}, `
			waiting{kind="mutex",lock="/a"} 2
			held{kind="mutex",lock="/a"} 0
			longest_wait_seconds{lock="/a"} 15
			longest_hold_seconds{lock="/a"} 0
			queue_ahead{lock="/a"} 3`},
		{"the oldest waiter is granted", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.asks(2, "mutex", "/a")
			p.hears(events.Queued{ID: 1, Ahead: 1}, events.Queued{ID: 2, Ahead: 2})
			p.passes(3 * time.Second)
			p.hears(events.Grant{ID: 1, Node: "/a/1", Waited: 3 * time.Second})
			p.passes(4 * time.Second)
		}, []string{"waiting", "held", "longest", "queue", "acquire_duration_seconds_sum", "acquire_duration_seconds_count"}, `
			waiting{kind="mutex",lock="/a"} 1
			held{kind="mutex",lock="/a"} 1
			longest_wait_seconds{lock="/a"} 7
			longest_hold_seconds{lock="/a"} 4
			queue_ahead{lock="/a"} 2
			acquire_duration_seconds_sum{kind="mutex",lock="/a",outcome="granted"} 3
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="granted"} 1`},
		{"a released lock leaves its counts", func(p *play) {
			p.gets(1, "mutex", "/a", time.Second)
			p.hears(events.Ended{ID: 1, Held: 2 * time.Second})
		}, []string{"waiting", "held", "longest", "hold_duration_seconds_sum", "hold_duration_seconds_count", "acquire_duration_seconds_sum"}, `
			waiting{kind="mutex",lock="/a"} 0
			held{kind="mutex",lock="/a"} 0
			longest_wait_seconds{lock="/a"} 0
			longest_hold_seconds{lock="/a"} 0
			hold_duration_seconds_sum{end="released",kind="mutex",lock="/a"} 2
			hold_duration_seconds_count{end="released",kind="mutex",lock="/a"} 1
			acquire_duration_seconds_sum{kind="mutex",lock="/a",outcome="granted"} 1`},
		{"losses", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.gets(2, "mutex", "/b", 0)
			p.hears(events.Lost{ID: 1, Reason: events.ReasonLeaseRanOut, Held: time.Minute}, events.Lost{ID: 2, Reason: events.ReasonRevoked, Held: time.Hour})
		}, []string{`lost_total{lock="/a",reason="lease`, `lost_total{lock="/b",reason="rev`, "hold_duration_seconds_sum", "held"}, `
			lost_total{lock="/a",reason="lease_ran_out"} 1
			lost_total{lock="/b",reason="revoked"} 1
			hold_duration_seconds_sum{end="lost",kind="mutex",lock="/a"} 60
			hold_duration_seconds_sum{end="lost",kind="mutex",lock="/b"} 3600
			held{kind="mutex",lock="/a"} 0
			held{kind="mutex",lock="/b"} 0`},
		{"the outcomes of a wait", func(p *play) {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errCause)
			for i, err := range []error{
				coordinator.ErrTimeout, context.DeadlineExceeded, context.Canceled, coordinator.ErrNotAcquired, coordinator.ErrClosed,
				coordinator.ErrDeadlock, fmt.Errorf("%w: bad", coordinator.ErrPath), fmt.Errorf("zkgrant: lock /a: %w", coordinator.ErrNoAuth), errCause,
			} {
				id := uint64(i + 1)
				p.asksWith(ctx, id, "mutex", "/a")
				p.hears(events.Ended{ID: id, Err: err})
			}
			p.asks(20, "mutex", "/a", try)
			p.hears(events.Ended{ID: 20, Err: &coordinator.HeldError{Path: "/a"}})
			p.asks(21, "mutex", "/a")
			p.hears(events.Ended{ID: 21, Err: errCause}) // not of its context
		}, []string{"acquire_duration_seconds_count", "waiting"}, `
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="timeout"} 2
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="canceled"} 2
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="withdrawn"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="closed"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="deadlock"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="invalid"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="error"} 2
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="taken"} 1
			waiting{kind="mutex",lock="/a"} 0`},
		{"the ends of a hold", func(p *play) {
			for i, e := range []events.Ended{
				{Held: 1}, {Held: 1, Err: coordinator.ErrClosed}, {Held: 1, Err: coordinator.ErrNoAuth}, {Err: errCause}, {Err: coordinator.ErrTimeout},
				{Err: &coordinator.LostError{Path: "/a", Reason: events.ReasonLeaseRanOut}},
			} {
				e.ID = uint64(i + 1)
				p.gets(e.ID, "mutex", "/a", 0)
				p.passes(time.Second)
				p.hears(e)
			}
		}, []string{"hold_duration_seconds_count", `hold_duration_seconds_sum{end="with`, "held", `lost_total{lock="/a",reason="lease`}, `
			hold_duration_seconds_count{end="released",kind="mutex",lock="/a"} 1
			hold_duration_seconds_count{end="closed",kind="mutex",lock="/a"} 1
			hold_duration_seconds_count{end="error",kind="mutex",lock="/a"} 1
			hold_duration_seconds_count{end="withdrawn",kind="mutex",lock="/a"} 3
			hold_duration_seconds_sum{end="withdrawn",kind="mutex",lock="/a"} 3
			held{kind="mutex",lock="/a"} 0
			lost_total{lock="/a",reason="lease_ran_out"} 0`},
		{"a semaphore counts permits", func(p *play) {
			p.asks(1, "semaphore", "/s", permits(3))
			p.asks(2, "semaphore", "/s", permits(2))
			p.asks(3, "semaphore", "/s", permits(2))
			p.hears(events.Grant{ID: 1, Node: "/s/leases/1"}, events.Grant{ID: 2, Node: "/s/leases/4"})
		}, []string{"waiting", "held"}, `
			waiting{kind="semaphore",lock="/s"} 1
			held{kind="semaphore",lock="/s"} 5`},
		{"a lock that is entered again is held once, until the last has released", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.asks(2, "mutex", "/a")
			p.hears(events.Grant{ID: 2, Node: "/a/1"})
			p.passes(time.Second)
			p.hears(events.Ended{ID: 1, Held: time.Second})
			p.asks(3, "mutex", "/a")
			p.hears(events.Grant{ID: 3, Node: "/a/1"})
		}, []string{"held", "longest_hold", "acquire_duration_seconds_count"}, `
			held{kind="mutex",lock="/a"} 1
			longest_hold_seconds{lock="/a"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/a",outcome="granted"} 3`},
		{"readers and writers", func(p *play) {
			p.gets(1, "read", "/rw", 0)
			p.gets(2, "read", "/rw", 0)
			p.asks(3, "write", "/rw")
		}, []string{"waiting", "held"}, `
			waiting{kind="read",lock="/rw"} 0
			waiting{kind="write",lock="/rw"} 1
			held{kind="read",lock="/rw"} 2
			held{kind="write",lock="/rw"} 0`},
		{"a multi-lock waits and counts at its first path, and holds at each of its members", func(p *play) {
			p.asks(1, "multi", "/a")
			p.hears(events.Grant{ID: 1, Path: "/a", Node: "/a/1", Members: []events.Member{{Path: "/a", Node: "/a/1"}, {Path: "/b", Node: "/b/1"}}})
			p.passes(3 * time.Second)
		}, []string{"held", "waiting", "longest_hold", "acquire_duration_seconds_count"}, `
			held{kind="multi",lock="/a"} 1
			held{kind="multi",lock="/b"} 1
			waiting{kind="multi",lock="/a"} 0
			waiting{kind="multi",lock="/b"} 0
			longest_hold_seconds{lock="/a"} 3
			longest_hold_seconds{lock="/b"} 3
			acquire_duration_seconds_count{kind="multi",lock="/a",outcome="granted"} 1`},
		{"a multi-lock below one parent holds as many as it has members, until it ends", func(p *play) {
			p.gets(1, "mutex", "/t/1", 0)
			p.asks(2, "multi", "/t/2")
			p.hears(events.Grant{ID: 2, Path: "/t/2", Node: "/t/2/1", Members: []events.Member{{Path: "/t/2", Node: "/t/2/1"}, {Path: "/t/3", Node: "/t/3/1"}}},
				events.Ended{ID: 1, Held: time.Second})
		}, []string{"held"}, `
			held{kind="multi",lock="/t/*"} 2
			held{kind="mutex",lock="/t/*"} 0`},
		{"a multi-lock that has ended holds none of its members", func(p *play) {
			p.asks(1, "multi", "/a")
			p.hears(events.Grant{ID: 1, Path: "/a", Node: "/a/1", Members: []events.Member{{Path: "/a", Node: "/a/1"}, {Path: "/b", Node: "/b/1"}}},
				events.Ended{ID: 1, Held: time.Second})
		}, []string{"held"}, `
			held{kind="multi",lock="/a"} 0
			held{kind="multi",lock="/b"} 0`},
		{"requeued, revoked and abandoned", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.hears(events.Requeued{ID: 1}, events.Requeued{ID: 1}, events.Grant{ID: 1, Node: "/a/1", Abandoned: &events.Abandoned{}},
				events.Revoked{ID: 1, Deadline: p.now.Add(time.Minute)}, events.Revoked{ID: 1, Deadline: p.now.Add(time.Second)})
		}, []string{"requeued", "revoked", "abandoned"}, `
			requeued_total{lock="/a"} 2
			revoked_total{lock="/a"} 1
			abandoned_total{lock="/a"} 1`},
		{"elections", func(p *play) {
			p.gets(1, "election", "/e/led", 0)
			p.asks(2, "election", "/e/other")
			p.asks(3, "mutex", "/m")
		}, []string{"leader"}, `
			leader{election="/e/led"} 1
			leader{election="/e/other"} 0`},
		{"the session", func(p *play) {
			p.hears(events.Connected{Session: 1}, events.Suspended{}, events.Resumed{}, events.Suspended{}, events.SessionExpired{Session: 1})
			p.leased(coordinator.LeaseInfo{RanOut: true})
		}, []string{"session_state", "session_events"}, `
			session_events_total{event="connected"} 1
			session_events_total{event="expired"} 1
			session_events_total{event="lease_ran_out"} 1
			session_events_total{event="resumed"} 1
			session_events_total{event="suspended"} 2
			session_state{state="closed"} 0
			session_state{state="connected"} 0
			session_state{state="connecting"} 1
			session_state{state="suspended"} 0`},
		{"the end of the session, behind which its connection ends", func(p *play) {
			p.hears(events.Connected{Session: 1})
			p.request(coordinator.RequestInfo{Op: "closeSession"})
			p.hears(events.Suspended{})
		}, []string{`session_state{state="c`}, `
			session_state{state="closed"} 1
			session_state{state="connected"} 0
			session_state{state="connecting"} 0`},
		{"the lease while a lock is held", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.leased(coordinator.LeaseInfo{Deadline: p.now.Add(9 * time.Second)})
			p.passes(2 * time.Second)
		}, []string{"lease_remaining"}, `lease_remaining_seconds 7`},
		{"a lease that has run out has no time left, and never less", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.leased(coordinator.LeaseInfo{Deadline: p.now.Add(time.Second)})
			p.passes(time.Minute)
		}, []string{"lease_remaining"}, `lease_remaining_seconds 0`},
		{"no lease while none is held, for it is not renewed then", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.leased(coordinator.LeaseInfo{Deadline: p.now.Add(time.Second)})
		}, []string{"lease_remaining"}, ``},
		{"how full the session is", func(p *play) {
			p.state.nodes = coordinator.NodesInfo{Nodes: 2, Bytes: 150, Budget: 1000}
		}, []string{"session_node"}, `
			session_node_budget_bytes 1000
			session_node_bytes 150
			session_nodes 2`},
		{"requests", func(p *play) {
			for _, r := range []coordinator.RequestInfo{
				{Op: "create"}, {Op: "create", Err: zk.ErrNoNode}, {Op: "multi", Err: errors.New("refused")},
				{Op: "operation 77", Err: zk.ErrConnectionClosed}, {Op: "operation 78", Err: zk.ErrConnectionClosed},
			} {
				r.Duration = time.Second
				p.request(r)
			}
		}, []string{"request_duration_seconds_count", `request_duration_seconds_sum{op="other"`}, `
			request_duration_seconds_count{op="create",result="ok"} 1
			request_duration_seconds_count{op="create",result="no_node"} 1
			request_duration_seconds_count{op="multi",result="error"} 1
			request_duration_seconds_count{op="other",result="connection_closed"} 2
			request_duration_seconds_sum{op="other",result="connection_closed"} 2`},
		{"a parent with too many children takes over what was counted, and what goes on", func(p *play) {
			p.gets(1, "mutex", "/t/1", time.Second)
			p.hears(events.Lost{ID: 1, Reason: events.ReasonRevoked, Held: time.Second})
			p.gets(2, "mutex", "/t/2", time.Second)
			p.asks(3, "election", "/t/2")
			p.hears(events.Requeued{ID: 3})
			p.asks(4, "mutex", "/t/3")
			p.hears(events.Lost{ID: 2, Reason: events.ReasonRevoked, Held: time.Second}, events.Grant{ID: 3, Node: "/t/2/3"}, events.Requeued{ID: 4})
		}, []string{`lost_total{lock="/t/*",reason="rev`, `lost_total{lock="/t/2`, "requeued", "waiting", "held", "acquire_duration_seconds_count", "hold_duration_seconds_sum", "leader"}, `
			lost_total{lock="/t/*",reason="revoked"} 2
			requeued_total{lock="/t/*"} 2
			waiting{kind="election",lock="/t/*"} 0
			waiting{kind="mutex",lock="/t/*"} 1
			held{kind="election",lock="/t/*"} 1
			held{kind="mutex",lock="/t/*"} 0
			acquire_duration_seconds_count{kind="election",lock="/t/*",outcome="granted"} 1
			acquire_duration_seconds_count{kind="mutex",lock="/t/*",outcome="granted"} 2
			hold_duration_seconds_sum{end="lost",kind="mutex",lock="/t/*"} 2
			leader{election="/t/*"} 1`},
		{"events of unknown acquisitions", func(p *play) {
			p.hears(events.Queued{ID: 9}, events.Requeued{ID: 9}, events.Grant{ID: 9}, events.Revoked{ID: 9}, events.Lost{ID: 9}, events.Ended{ID: 9})
		}, []string{"held", "lost_total", "acquire"}, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(2)
			test.story(p)
			compare(t, p, test.about, test.want)
		})
	}
}

// compare checks the samples that begin with one of the texts, without the prefix zkgrant_.
func compare(t *testing.T, c prometheus.Collector, about []string, want string) {
	t.Helper()
	got := exposed(t, c, about)
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !got[line] {
			t.Errorf("missing: %s", line)
		}
		delete(got, line)
	}
	for line := range got {
		t.Errorf("not wanted: %s", line)
	}
}

func exposed(t *testing.T, c prometheus.Collector, about []string) map[string]bool {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for line := range strings.Lines(text.String()) {
		line, ours := strings.CutPrefix(strings.TrimSpace(line), "zkgrant_")
		for _, name := range about {
			if ours && strings.HasPrefix(line, name) {
				found[line] = true
			}
		}
	}
	return found
}

// TestNothingIsKeptOfWhatHasEnded: neither acquisitions, nor contexts of those that hold, nor more locks than labels.
func TestNothingIsKeptOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	p := newPlay(5)
	for i := range 10_000 {
		id, path := uint64(i), fmt.Sprintf("/users/%d/%d", i/100, i)
		p.gets(id, "mutex", path, 0)
		if p.live[id].ctx != nil {
			t.Fatal("the context of a holder is kept")
		}
		if i%2 == 0 {
			p.hears(events.Ended{ID: id, Held: time.Second})
		} else {
			p.hears(events.Lost{ID: id, Reason: events.ReasonNodeRemoved, Held: time.Second})
		}
	}
	if len(p.live) > 0 || len(p.locks) > 101 || len(p.labels.parents) > 101 {
		t.Errorf("when 10,000 acquisitions have ended %d, %d locks and %d parents are kept, want 0, at most 101 and 101",
			len(p.live), len(p.locks), len(p.labels.parents))
	}
}
