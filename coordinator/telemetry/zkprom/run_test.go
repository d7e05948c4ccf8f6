package zkprom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestARun scrapes a process while it takes and loses locks of all kinds, and compares
// what it reads with what the acquisitions say. If there is a Prometheus, that scrapes
// it, too, and is asked what the dashboard asks.
func TestARun(t *testing.T) {
	t.Parallel()
	t.Run("server in process", func(t *testing.T) {
		t.Parallel()
		run(t, func() string { return zktest.Start(t, zktest.Tick(500*time.Millisecond)).Addr() })
	})
	t.Run("real servers", func(t *testing.T) {
		t.Parallel()
		eventstest.NeedsServers(t)
		run(t, func() string { return ensemble.Start(t, 3).Connect() })
	})
}

const sessionTimeout = 2 * time.Second

func run(t *testing.T, start func() (servers string)) {
	t.Helper()
	ctx := eventstest.Patiently(t, time.Minute)
	registry := prometheus.NewPedanticRegistry()
	page := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(page.Close)
	server := scraped(t, page.Listener.Addr().String())

	servers := start()
	network := faultnet.New((&net.Dialer{}).DialContext, nil)
	t.Cleanup(network.Close)
	m := New(WithMaxLocks(20))
	options := []coordinator.Option{coordinator.WithSessionTimeout(sessionTimeout), coordinator.WithTickTime(500 * time.Millisecond)}
	c := connect(t, ctx, servers, append(options, coordinator.WithHooks(m), coordinator.WithDialer(network.Dial))...)
	other := connect(t, ctx, servers, options...)
	q := NewQueues(other, "/", WithPollInterval(100*time.Millisecond))
	registry.MustRegister(m, q)
	if server != nil {
		eventstest.Eventually(t, "Prometheus scrapes", func() bool { // it looks for targets every five seconds
			ok, err := server.answers("zkgrant_held or zkgrant_session_state", time.Now())
			return err == nil && ok
		})
	}
	begun := time.Now()

	w := &witness{t: t, ctx: ctx, c: c, page: page.URL}
	w.everyKind()
	w.compare("when every kind is held")
	w.queuesShow(q)
	w.everyOutcome()
	w.compare("when waits have ended in every way")
	w.losses(other, servers, network)
	w.compare("when locks were lost in every way")
	w.end()
	w.compare("when all are released")

	t.Run("dashboard", func(t *testing.T) {
		installed(t, "prometheus")
		answered(t, server, begun)
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("the names have the problems %v, %v; want none", problems, err)
	}
	for name := range names() {
		if !slices.ContainsFunc(strings.Split(w.scrape(), "\n"), func(line string) bool { return strings.HasPrefix(line, "# TYPE "+name+" ") }) &&
			name != "zkgrant_lease_remaining_seconds" { // nothing is held
			t.Errorf("%s is not exported", name)
		}
	}
	eventstest.Check(t, c.Close())
	if text := w.scrape(); !strings.Contains(text, `zkgrant_session_state{state="closed"} 1`) {
		t.Errorf("after Close the session is not closed:\n%s", text)
	}
}

func connect(t *testing.T, ctx context.Context, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(ctx, servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// witness acquires locks, and keeps the acquisitions, of which it knows what became.
type witness struct {
	t    *testing.T
	ctx  context.Context
	c    *coordinator.Coordinator
	page string
	seen []*sighting
}

// sighting is an acquisition, and what its channels said.
type sighting struct {
	*coordinator.Acquisition
	label, kind, outcome, end string // as they are to be exported
	permits                   int
	grant                     *events.Grant
	lost                      *events.Lost
}

// paths are the labels of what is held.
func (s *sighting) paths() []string {
	if len(s.grant.Members) == 0 {
		return []string{s.label}
	}
	var all []string
	for _, m := range s.grant.Members {
		all = append(all, m.Path)
	}
	return all
}

func (w *witness) sees(label, kind string, a *coordinator.Acquisition) *sighting {
	s := &sighting{Acquisition: a, label: label, kind: kind, permits: 1}
	w.seen = append(w.seen, s)
	return s
}

// holds waits for the Grant.
func (w *witness) holds(label, kind string, a *coordinator.Acquisition) *sighting {
	w.t.Helper()
	s := w.sees(label, kind, a)
	grant := eventstest.Receive(w.t, a.Granted(), "the Grant of "+label)
	s.grant, s.outcome = &grant, "granted"
	return s
}

// ended waits for the end without a Grant.
func (w *witness) ended(s *sighting, outcome string) {
	w.t.Helper()
	eventstest.Receive(w.t, s.Done(), "the end of the wait for "+s.label)
	s.outcome = outcome
}

func (w *witness) releases(s *sighting) {
	w.t.Helper()
	s.Release()
	eventstest.Receive(w.t, s.Done(), "the end of "+s.label)
	s.end = "released"
}

func (w *witness) loses(s *sighting) {
	w.t.Helper()
	lost := eventstest.Receive(w.t, s.Lost(), "the loss of "+s.label)
	s.lost, s.end = &lost, "lost"
}

func (w *witness) everyKind() {
	c, ctx := w.c, w.ctx
	outer := w.holds("/entered", "mutex", c.Mutex("/entered", coordinator.Reentrant()).Acquire(ctx))
	w.holds("/entered", "mutex", c.Mutex("/entered", coordinator.Reentrant()).Acquire(outer.Context(ctx)))
	w.holds("/rw", "read", c.ReadWrite("/rw").Read().Acquire(ctx))
	w.holds("/rw", "read", c.ReadWrite("/rw").Read().Acquire(ctx))
	w.holds("/written", "write", c.ReadWrite("/written").Write().Acquire(ctx))
	w.holds("/permits", "semaphore", c.Semaphore("/permits", 5).Acquire(ctx, coordinator.Permits(3))).permits = 3
	w.holds("/permits", "semaphore", c.Semaphore("/permits", 5).Acquire(ctx, coordinator.Permits(2))).permits = 2
	w.holds("/m/a", "multi", c.Multi(c.Mutex("/m/a"), c.Mutex("/m/b")).Acquire(ctx))
	w.holds("/leader", "election", c.Election("/leader").Acquire(ctx))
	w.holds("/claim", "unfair", c.Unfair("/claim").Acquire(ctx))
	w.sees("/written", "write", c.ReadWrite("/written").Write().Acquire(ctx)) // waits to the end
	w.tasks(30)
}

// tasks are locks of which each is used once.
func (w *witness) tasks(n int) {
	for i := range n {
		w.releases(w.holds("/tasks/*", "mutex", w.c.Mutex(fmt.Sprintf("/tasks/%d", i)).Acquire(w.ctx)))
	}
}

// queuesShow compares what is held with what the nodes show.
func (w *witness) queuesShow(q *Queues) {
	w.t.Helper()
	eventstest.Eventually(w.t, "what the queues show is what is held", func() bool {
		got := exposed(w.t, q)
		for sample := range strings.FieldsSeq(`
			queue_held{mutex,/entered}=1 queue_held{readwrite,/rw}=2 queue_held{semaphore,/permits}=5 queue_held{mutex,/m/a}=1
			queue_held{mutex,/m/b}=1 queue_held{unfair,/claim}=1 queue_waiting{readwrite,/written}=1 queue_held{readwrite,/written}=1`) {
			if !got[sample] {
				return false
			}
		}
		return true
	}, w.scrape)
}

func (w *witness) everyOutcome() {
	c := w.c
	w.ended(w.sees("/written", "write", c.ReadWrite("/written").Write().Acquire(w.ctx, coordinator.Try())), "taken")
	w.ended(w.sees("/written", "write", c.ReadWrite("/written").Write().Acquire(w.ctx, coordinator.MaxWait(100*time.Millisecond))), "timeout")
	ctx, cancel := context.WithCancelCause(w.ctx)
	canceled := w.sees("/written", "write", c.ReadWrite("/written").Write().Acquire(ctx))
	cancel(errCause)
	w.ended(canceled, "canceled")
	withdrawn := w.sees("/written", "write", c.ReadWrite("/written").Write().Acquire(w.ctx))
	withdrawn.Release()
	w.ended(withdrawn, "withdrawn")
	w.ended(w.sees("*", "mutex", c.Mutex("bad").Acquire(w.ctx)), "invalid")
	w.ended(w.sees("/permits", "semaphore", c.Semaphore("/permits", 6).Acquire(w.ctx)), "error") // another size
	once := w.holds("/again", "mutex", c.Mutex("/again").Acquire(w.ctx))
	w.ended(w.sees("/again", "mutex", c.Mutex("/again").Acquire(once.Context(w.ctx))), "deadlock")
	w.releases(once)
}

func (w *witness) losses(other *coordinator.Coordinator, servers string, network *faultnet.Network) {
	w.t.Helper()
	asked := w.holds("/asked", "mutex", w.c.Mutex("/asked", coordinator.Revocable()).Acquire(w.ctx))
	eventstest.Check(w.t, other.Revoke(w.ctx, "/asked", 0))
	w.loses(asked)

	raw, session, err := zk.Connect(strings.Split(servers, ","), sessionTimeout, zk.WithLogger(eventstest.Quiet{}))
	eventstest.Must(w.t, err)
	defer raw.Close()
	for event := range session {
		if event.State == zk.StateHasSession {
			break
		}
	}
	removed := w.holds("/removed", "mutex", w.c.Mutex("/removed").Acquire(w.ctx))
	eventstest.Must(w.t, raw.Delete(removed.grant.Node, -1))
	w.loses(removed)

	next := other.Mutex("/entered").Acquire(w.ctx)
	network.Partition()
	for _, s := range w.seen {
		if s.grant != nil && s.end == "" {
			w.loses(s)
		}
	}
	eventstest.Receive(w.t, next.Granted(), "the Grant of the next holder")
	network.Heal()
	next.Release()
	eventstest.Receive(w.t, next.Done(), "the end of the next holder")
	for _, s := range w.seen {
		if s.outcome == "" { // the waiter for what was held is granted in the next session
			grant := eventstest.Receive(w.t, s.Granted(), "the Grant after the partition")
			s.grant, s.outcome = &grant, "granted"
		}
	}
	if text := w.scrape(); !strings.Contains(text, `zkgrant_requeued_total{lock="/written"} 1`) || !strings.Contains(text, `zkgrant_revoked_total{lock="/asked"} 1`) {
		w.t.Errorf("one waiter was queued again and one holder was asked; exported is\n%s", text)
	}
}

// end releases what is held, and does what was done before: a rate is one of counters
// that were scraped before.
func (w *witness) end() {
	w.tasks(3)
	for _, s := range w.seen {
		if s.grant != nil && s.end == "" {
			w.releases(s)
		}
	}
}

func (w *witness) scrape() string {
	text, _, err := get(w.page)
	eventstest.Must(w.t, err)
	return string(text)
}

// get reads a page, and leaves no connection.
func get(page string) (text []byte, status int, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(page)
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(answer.Body)
	return text, answer.StatusCode, errors.Join(err, answer.Body.Close())
}

// compare waits until the counts that are scraped are those of the acquisitions.
func (w *witness) compare(when string) {
	w.t.Helper()
	want := w.counts()
	var got map[string]string
	eventstest.Eventually(w.t, when+" the counts are those of the acquisitions", func() bool {
		got = map[string]string{}
		for line := range strings.Lines(w.scrape()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			for _, each := range []string{"waiting{", "held{", "lost_total{", "acquire_duration_seconds_count{", "hold_duration_seconds_count{"} {
				if strings.HasPrefix(name, "zkgrant_"+each) && value != "0" {
					got[name+"}"] = value
				}
			}
		}
		for name := range want {
			if got[name] != fmt.Sprint(want[name]) {
				return false
			}
		}
		return len(got) == len(want)
	}, func() string { return fmt.Sprintf("got\n%v\nwant\n%v", got, want) })
}

// counts are what the acquisitions say.
func (w *witness) counts() map[string]int {
	all := map[string]int{}
	nodes := map[string]bool{}
	for _, s := range w.seen {
		switch {
		case s.outcome == "":
			all[fmt.Sprintf(`zkgrant_waiting{kind=%q,lock=%q}`, s.kind, s.label)]++
			continue
		case s.grant != nil && s.end == "" && !nodes[s.grant.Node]:
			nodes[s.grant.Node] = true
			for _, path := range s.paths() {
				all[fmt.Sprintf(`zkgrant_held{kind=%q,lock=%q}`, s.kind, path)] += s.permits
			}
		}
		all[fmt.Sprintf(`zkgrant_acquire_duration_seconds_count{kind=%q,lock=%q,outcome=%q}`, s.kind, s.label, s.outcome)]++
		if s.end != "" {
			all[fmt.Sprintf(`zkgrant_hold_duration_seconds_count{end=%q,kind=%q,lock=%q}`, s.end, s.kind, s.label)]++
		}
		if s.lost != nil {
			all[fmt.Sprintf(`zkgrant_lost_total{lock=%q,reason=%q}`, s.label, strings.ReplaceAll(s.lost.Reason.String(), " ", "_"))]++
		}
	}
	return all
}
