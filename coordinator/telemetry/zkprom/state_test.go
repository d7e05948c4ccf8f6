package zkprom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play feeds a state with events at the test's own times.
type play struct {
	*state
	now time.Time
}

func newPlay(most int) *play { return &play{newState(most), time.Unix(1_000_000, 0)} }

type collector struct {
	of      map[string]described
	samples []sample
}

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.of {
		to <- desc.Desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.samples {
		to <- s.metric()
	}
}

func (p *play) passes(d time.Duration) { p.now = p.now.Add(d) }

func (p *play) asks(id uint64, kind, path string) {
	p.asksWith(context.Background(), hooks.Acquire{ID: id, Path: path, Kind: kind})
}

func (p *play) asksWith(ctx context.Context, info hooks.Acquire) {
	p.acquire(ctx, p.now, p.at(info.Path, "", false), info)
}

func (p *play) hears(all ...events.Event) {
	for _, event := range all {
		p.event(p.now, event)
	}
}

// gets asks, and is granted the lock after a wait.
func (p *play) gets(id uint64, kind, path string, wait time.Duration) {
	p.asks(id, kind, path)
	p.passes(wait)
	p.hears(events.Grant{ID: id, Path: path, Node: fmt.Sprint(path, "/", id), Waited: wait})
}

var errCause = errors.New("the caller's own cause")

// TestWhatHooksTell checks, for each story, the metrics that it is about.
func TestWhatHooksTell(t *testing.T) {
	for _, test := range []struct {
		name  string
		story func(*play)
		want  string // see compare
	}{
		{"a lock without a holder so far has counters of 0", func(p *play) { p.asks(1, "mutex", "/a") }, `
			lost_total{/a,connection_suspended}=0 lost_total{/a,lease_ran_out}=0
			lost_total{/a,node_removed}=0 lost_total{/a,revoked}=0 lost_total{/a,session_expired}=0
			requeued_total{/a}=0 revoked_total{/a}=0 abandoned_total{/a}=0`},
		{"waiters", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.passes(10 * time.Second)
			p.asks(2, "mutex", "/a")
			p.hears(events.Queued{ID: 2, Ahead: 7}, events.Queued{ID: 1, Ahead: 3})
			p.passes(5 * time.Second)
		}, `
			waiting{mutex,/a}=2 held{mutex,/a}=0 longest_wait_seconds{/a}=15 longest_hold_seconds{/a}=0
			queue_ahead{/a}=3`},
		{"the oldest waiter is granted", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.asks(2, "mutex", "/a")
			p.hears(events.Queued{ID: 1, Ahead: 1}, events.Queued{ID: 2, Ahead: 2})
			p.passes(3 * time.Second)
			p.hears(events.Grant{ID: 1, Node: "/a/1", Waited: 3 * time.Second})
			p.passes(4 * time.Second)
		}, `
			waiting{mutex,/a}=1 held{mutex,/a}=1 longest_wait_seconds{/a}=7 longest_hold_seconds{/a}=4
			queue_ahead{/a}=2 acquire_duration_seconds_sum{mutex,/a,granted}=3
			acquire_duration_seconds_count{mutex,/a,granted}=1`},
		// TestEachEndHasAWordAndSomeAreErrors of zkotel has the others.
		{"the outcomes of a wait that depend on how it was called", func(p *play) {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errCause)
			p.asksWith(ctx, hooks.Acquire{ID: 1, Path: "/a", Kind: "mutex"})
			p.hears(events.Ended{ID: 1, Err: errCause})
			p.asksWith(ctx, hooks.Acquire{ID: 2, Path: "/a", Kind: "mutex", Try: true})
			p.hears(events.Ended{ID: 2, Err: coordinator.ErrNotAcquired})
			p.asks(3, "mutex", "/a")
			p.hears(events.Ended{ID: 3, Err: errCause}) // not the cause of its context
			p.asks(4, "mutex", "/a")
			p.hears(events.Ended{ID: 4, Err: coordinator.ErrNotAcquired})
		}, `
			acquire_duration_seconds_count{mutex,/a,canceled}=1 acquire_duration_seconds_count{mutex,/a,taken}=1
			acquire_duration_seconds_count{mutex,/a,error}=1 acquire_duration_seconds_count{mutex,/a,withdrawn}=1
			waiting{mutex,/a}=0`},
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
		}, `
			hold_duration_seconds_count{released,mutex,/a}=1 hold_duration_seconds_count{closed,mutex,/a}=1
			hold_duration_seconds_count{error,mutex,/a}=1 hold_duration_seconds_count{withdrawn,mutex,/a}=3
			hold_duration_seconds_sum{released,mutex,/a}=1e-09 hold_duration_seconds_sum{closed,mutex,/a}=1e-09
			hold_duration_seconds_sum{error,mutex,/a}=1e-09 hold_duration_seconds_sum{withdrawn,mutex,/a}=3
			held{mutex,/a}=0 lost_total{/a,lease_ran_out}=0`},
		{"a lock that is entered again is held once, until the last has released", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.asks(2, "mutex", "/a")
			p.hears(events.Grant{ID: 2, Node: "/a/1"})
			p.passes(time.Second)
			p.hears(events.Ended{ID: 1, Held: time.Second})
			p.asks(3, "mutex", "/a")
			p.hears(events.Grant{ID: 3, Node: "/a/1"})
		}, `held{mutex,/a}=1 longest_hold_seconds{/a}=1 acquire_duration_seconds_count{mutex,/a,granted}=3`},
		{"a multi-lock waits and counts at its first path, and holds at each of its members", func(p *play) {
			p.asks(1, "multi", "/a")
			p.hears(events.Grant{ID: 1, Path: "/a", Node: "/a/1", Members: []events.Member{{Path: "/a", Node: "/a/1"}, {Path: "/b", Node: "/b/1"}}})
			p.passes(3 * time.Second)
		}, `
			held{multi,/a}=1 held{multi,/b}=1 waiting{multi,/a}=0 waiting{multi,/b}=0
			longest_hold_seconds{/a}=3 longest_hold_seconds{/b}=3
			acquire_duration_seconds_count{multi,/a,granted}=1`},
		{"a multi-lock below one parent holds as many as it has members, until it ends", func(p *play) {
			p.gets(1, "mutex", "/t/1", 0)
			p.asks(2, "multi", "/t/2")
			p.hears(events.Grant{ID: 2, Path: "/t/2", Node: "/t/2/1", Members: []events.Member{{Path: "/t/2", Node: "/t/2/1"}, {Path: "/t/3", Node: "/t/3/1"}}},
				events.Ended{ID: 1, Held: time.Second})
		}, `held{multi,/t/*}=2 held{mutex,/t/*}=0`},
		{"requeued, revoked and abandoned", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.hears(events.Requeued{ID: 1}, events.Requeued{ID: 1}, events.Grant{ID: 1, Node: "/a/1", Abandoned: &events.Abandoned{}},
				events.Revoked{ID: 1, Deadline: p.now.Add(time.Minute)}, events.Revoked{ID: 1, Deadline: p.now.Add(time.Second)})
		}, `requeued_total{/a}=2 revoked_total{/a}=1 abandoned_total{/a}=1`},
		{"elections", func(p *play) {
			p.gets(1, "election", "/e/led", 0)
			p.asks(2, "election", "/e/other")
			p.asks(3, "mutex", "/m")
		}, `leader{/e/led}=1 leader{/e/other}=0`},
		{"the session", func(p *play) {
			p.hears(events.Connected{Session: 1}, events.Suspended{}, events.Resumed{}, events.Suspended{}, events.SessionExpired{Session: 1})
			p.leased(hooks.Lease{RanOut: true})
		}, `
			session_events_total{connected}=1 session_events_total{expired}=1
			session_events_total{lease_ran_out}=1 session_events_total{resumed}=1
			session_events_total{suspended}=2 session_state{closed}=0 session_state{connected}=0
			session_state{connecting}=1 session_state{suspended}=0`},
		{"the end of the session", func(p *play) {
			p.hears(events.Connected{Session: 1})
			p.request(hooks.Request{Op: "closeSession"})
		}, `session_state{closed}=1 session_state{connected}=0 session_state{connecting}=0`},
		{"the lease while a lock is held", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.leased(hooks.Lease{Deadline: p.now.Add(9 * time.Second)})
			p.passes(2 * time.Second)
		}, `lease_remaining_seconds=7`},
		{"a lease that has run out has no time left, and never less", func(p *play) {
			p.gets(1, "mutex", "/a", 0)
			p.leased(hooks.Lease{Deadline: p.now.Add(time.Second)})
			p.passes(time.Minute)
		}, `lease_remaining_seconds=0`},
		{"no lease while none is held, for it is not renewed then", func(p *play) {
			p.asks(1, "mutex", "/a")
			p.leased(hooks.Lease{Deadline: p.now.Add(time.Second)})
		}, `lease_remaining_seconds`},
		{"how full the session is", func(p *play) {
			p.state.nodes = hooks.Nodes{Nodes: 2, Bytes: 150, Budget: 1000}
		}, `session_node_budget_bytes=1000 session_node_bytes=150 session_nodes=2`},
		{"requests", func(p *play) {
			for _, r := range []hooks.Request{
				{Op: "create"}, {Op: "create", Err: zk.ErrNoNode}, {Op: "multi", Err: errors.New("refused")},
				{Op: "operation 77", Err: zk.ErrConnectionClosed}, {Op: "operation 78", Err: zk.ErrConnectionClosed},
				{Op: words.Closing, Err: fmt.Errorf("multi: %w", zk.ErrNodeExists)},
			} {
				r.Duration = time.Second
				p.request(r)
			}
		}, `
			request_duration_seconds_count{create,ok}=1 request_duration_seconds_count{create,no_node}=1
			request_duration_seconds_count{multi,error}=1 request_duration_seconds_count{closeSession,node_exists}=1
			request_duration_seconds_count{other,connection_closed}=2`},
		{"a parent with too many children takes over what was counted, and what goes on", func(p *play) {
			p.gets(1, "mutex", "/t/1", time.Second)
			p.hears(events.Lost{ID: 1, Reason: events.ReasonRevoked, Held: time.Second})
			p.gets(2, "mutex", "/t/2", time.Second)
			p.asks(3, "election", "/t/2")
			p.hears(events.Requeued{ID: 3})
			p.asks(4, "mutex", "/t/3")
			p.hears(events.Lost{ID: 2, Reason: events.ReasonRevoked, Held: time.Second}, events.Grant{ID: 3, Node: "/t/2/3"}, events.Requeued{ID: 4})
		}, `
			lost_total{/t/*,revoked}=2 requeued_total{/t/*}=2 waiting{election,/t/*}=0 waiting{mutex,/t/*}=1
			held{election,/t/*}=1 held{mutex,/t/*}=0 acquire_duration_seconds_count{election,/t/*,granted}=1
			acquire_duration_seconds_count{mutex,/t/*,granted}=2
			hold_duration_seconds_sum{lost,mutex,/t/*}=2 leader{/t/*}=1`},
		{"events of unknown acquisitions", func(p *play) {
			p.hears(events.Queued{ID: 9}, events.Requeued{ID: 9}, events.Grant{ID: 9}, events.Revoked{ID: 9}, events.Lost{ID: 9}, events.Ended{ID: 9})
		}, `waiting held lost_total acquire_duration_seconds_count hold_duration_seconds_count`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlay(2)
			test.story(p)
			compare(t, collector{descriptions, p.snapshot(p.now)}, test.want)
		})
	}
}

// TestEachEventIsCountedOnce: an event of an acquisition changes no count of the session,
// and an event of the session sets its state. A new type of event needs a case here.
func TestEachEventIsCountedOnce(t *testing.T) {
	cases := map[string]struct {
		event events.Event
		want  string // see compare
	}{
		"Grant":          {events.Grant{ID: 1, Node: "/a/1"}, "acquire_duration_seconds_count{mutex,/a,granted}=1"},
		"Lost":           {events.Lost{ID: 1, Reason: events.ReasonRevoked}, "lost_total{/a,revoked}=1"},
		"Ended":          {events.Ended{ID: 1}, "acquire_duration_seconds_count{mutex,/a,withdrawn}=1"},
		"Queued":         {events.Queued{ID: 1, Ahead: 7}, "queue_ahead{/a}=7"},
		"Requeued":       {events.Requeued{ID: 1}, "requeued_total{/a}=1"},
		"Revoked":        {events.Revoked{ID: 1}, "revoked_total{/a}=1"},
		"Contended":      {events.Contended{ID: 1}, ""}, // no metric
		"Connected":      {events.Connected{}, "session_events_total{connected}=1 session_state{connected}=1"},
		"Suspended":      {events.Suspended{}, "session_events_total{suspended}=1 session_state{suspended}=1"},
		"Resumed":        {events.Resumed{}, "session_events_total{resumed}=1 session_state{connected}=1"},
		"SessionExpired": {events.SessionExpired{}, "session_events_total{expired}=1 session_state{connecting}=1"},
	}
	types := all(read(t, "../../../events/event.go"), `(?m)^func \((\w+)\) isEvent\(\)`)
	eventstest.Equal(t, slices.Sorted(maps.Keys(cases)), slices.Sorted(maps.Keys(types)),
		"the types of events that have a case")
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPlay(2)
			p.asks(1, "mutex", "/a")
			p.hears(test.event)
			counted := "session_events_total{connected}=0 requeued_total{/a}=0 revoked_total{/a}=0 lost_total{/a,revoked}=0"
			count, _, _ := strings.Cut(test.want, "=")
			counted = strings.ReplaceAll(counted, count+"=0", "")
			compare(t, collector{descriptions, p.snapshot(p.now)}, counted+" "+test.want)
		})
	}
}

func compare(t *testing.T, c prometheus.Collector, want string) {
	t.Helper()
	for _, difference := range differences(exposed(t, c), want) {
		t.Error(difference)
	}
}

// differences compares the samples of the wanted metrics: each is name{values of
// labels}=value, without the prefix zkgrant_. A further sample is wrong unless its value
// is 0. A name alone means no sample.
func differences(got map[string]bool, want string) (all []string) {
	names := map[string]bool{}
	for sample := range strings.FieldsSeq(want) {
		name, _, there := strings.Cut(sample, "=")
		name, _, _ = strings.Cut(name, "{")
		names[name] = true
		if there && !got[sample] {
			all = append(all, "missing: "+sample)
		}
		delete(got, sample)
	}
	for sample := range got {
		name, value, _ := strings.Cut(sample, "=")
		name, _, labelled := strings.Cut(name, "{")
		if names[name] && (value != "0" || !labelled) {
			all = append(all, "not wanted: "+sample)
		}
	}
	return all
}

func exposed(t *testing.T, c prometheus.Collector) map[string]bool {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	eventstest.Must(t, err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		eventstest.Must(t, err)
	}
	return parsed(text.String())
}

// parsed returns the samples in Prometheus's text format.
func parsed(text string) map[string]bool {
	found, label := map[string]bool{}, regexp.MustCompile(`\w+="([^"]*)"`)
	for line := range strings.Lines(text) {
		if line, ours := strings.CutPrefix(strings.TrimSpace(line), "zkgrant_"); ours {
			at := strings.LastIndexByte(line, ' ')
			found[label.ReplaceAllString(line[:at], "$1")+"="+line[at+1:]] = true
		}
	}
	return found
}

// TestNothingIsKeptOfWhatHasEnded: no ended acquisitions, no contexts of holders, and no
// more locks than labels.
func TestNothingIsKeptOfWhatHasEnded(t *testing.T) {
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
	eventstest.Expect(t, len(p.live) == 0 && len(p.locks) <= 101 && p.labels.Parents() <= 101,
		"when 10,000 acquisitions have ended %d, %d locks and %d parents are kept, want 0, at most 101 and 101",
		len(p.live), len(p.locks), p.labels.Parents())
}
