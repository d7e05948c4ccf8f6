package zkprom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

// TestARun scrapes a process while it acquires and loses locks of all kinds. If there is
// a Prometheus, it scrapes the process, too, and must answer the dashboard's expressions.
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
		eventstest.Eventually(t, "Prometheus scrapes", func() bool { // it reloads its targets every five seconds
			ok, err := server.answers("zkgrant_held or zkgrant_session_state", time.Now())
			return err == nil && ok
		})
	}
	begun := time.Now()

	w := &witness{t: t, ctx: ctx, c: c, page: page.URL, want: map[string]string{}}
	w.everyKind()
	w.queuesShow(q)
	w.everyOutcome()
	w.losses(other, servers, network)
	w.end()

	t.Run("dashboard", func(t *testing.T) {
		installed(t, "prometheus")
		answered(t, server, begun)
	})
	problems, err := testutil.GatherAndLint(registry)
	eventstest.Expect(t, err == nil && len(problems) == 0, "the names have the problems %v, %v", problems, err)
	for name := range names() {
		if name != "zkgrant_lease_remaining_seconds" { // nothing is held
			eventstest.Contains(t, w.scrape(), "\n# TYPE "+name+" ", "what is exported")
		}
	}
	eventstest.Check(t, c.Close())
	eventstest.Contains(t, w.scrape(), `zkgrant_session_state{state="closed"} 1`, "after Close")
}

func connect(t *testing.T, ctx context.Context, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(ctx, servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// witness acquires locks, and knows what should be exported for them.
type witness struct {
	t    *testing.T
	ctx  context.Context
	c    *coordinator.Coordinator
	page string
	want map[string]string // the value of each sample
	held []*coordinator.Acquisition
	next *coordinator.Acquisition // waits until the others have lost their locks
}

func (w *witness) granted(a *coordinator.Acquisition) events.Grant {
	w.t.Helper()
	return eventstest.Receive(w.t, a.Granted(), "a Grant")
}

func (w *witness) holds(a *coordinator.Acquisition) *coordinator.Acquisition {
	w.t.Helper()
	w.granted(a)
	w.held = append(w.held, a)
	return a
}

func (w *witness) ended(a *coordinator.Acquisition) {
	w.t.Helper()
	eventstest.Receive(w.t, a.Done(), "the end of an acquisition")
}

func (w *witness) releases(a *coordinator.Acquisition) {
	w.t.Helper()
	a.Release()
	w.ended(a)
}

func (w *witness) everyKind() {
	c, ctx := w.c, w.ctx
	outer := w.holds(c.Mutex("/entered", coordinator.Reentrant()).Acquire(ctx))
	w.holds(c.Mutex("/entered", coordinator.Reentrant()).Acquire(outer.Context(ctx)))
	w.holds(c.ReadWrite("/rw").Read().Acquire(ctx))
	w.holds(c.ReadWrite("/rw").Read().Acquire(ctx))
	w.holds(c.ReadWrite("/written").Write().Acquire(ctx))
	w.holds(c.Semaphore("/permits", 5).Acquire(ctx, coordinator.Permits(3)))
	w.holds(c.Semaphore("/permits", 5).Acquire(ctx, coordinator.Permits(2)))
	w.holds(c.Multi(c.Mutex("/m/a"), c.Mutex("/m/b")).Acquire(ctx))
	w.holds(c.Election("/leader").Acquire(ctx))
	w.holds(c.Unfair("/claim").Acquire(ctx))
	w.next = c.ReadWrite("/written").Write().Acquire(ctx)
	w.tasks(30)
	w.shows("every kind is held", `
		waiting{write,/written}=1 held{mutex,/entered}=1 held{read,/rw}=2 held{write,/written}=1
		held{semaphore,/permits}=5 held{multi,/m/a}=1 held{multi,/m/b}=1 held{election,/leader}=1
		held{unfair,/claim}=1 acquire{mutex,/entered,granted}=2 acquire{read,/rw,granted}=2
		acquire{write,/written,granted}=1 acquire{semaphore,/permits,granted}=2 acquire{multi,/m/a,granted}=1
		acquire{election,/leader,granted}=1 acquire{unfair,/claim,granted}=1
		acquire{mutex,/tasks/*,granted}=30 hold{released,mutex,/tasks/*}=30`)
}

// tasks acquires and releases n locks, each at its own path.
func (w *witness) tasks(n int) {
	for i := range n {
		a := w.c.Mutex(fmt.Sprintf("/tasks/%d", i)).Acquire(w.ctx)
		w.granted(a)
		w.releases(a)
	}
}

// queuesShow checks that the nodes show what is held.
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
	c, written := w.c, w.c.ReadWrite("/written").Write()
	w.ended(written.Acquire(w.ctx, coordinator.Try()))
	w.ended(written.Acquire(w.ctx, coordinator.MaxWait(100*time.Millisecond)))
	ctx, cancel := context.WithCancelCause(w.ctx)
	canceled := written.Acquire(ctx)
	cancel(errCause)
	w.ended(canceled)
	w.releases(written.Acquire(w.ctx)) // before it is granted
	w.ended(c.Mutex("bad").Acquire(w.ctx))
	w.ended(c.Semaphore("/permits", 6).Acquire(w.ctx)) // another size
	once := c.Mutex("/again").Acquire(w.ctx)
	w.granted(once)
	w.ended(c.Mutex("/again").Acquire(once.Context(w.ctx)))
	w.releases(once)
	w.shows("waits have ended in every way", `
		acquire{write,/written,taken}=1 acquire{write,/written,timeout}=1 acquire{write,/written,canceled}=1
		acquire{write,/written,withdrawn}=1 acquire{mutex,*,invalid}=1 acquire{semaphore,/permits,error}=1
		acquire{mutex,/again,granted}=1 acquire{mutex,/again,deadlock}=1 hold{released,mutex,/again}=1`)
}

func (w *witness) losses(other *coordinator.Coordinator, servers string, network *faultnet.Network) {
	w.t.Helper()
	asked := w.c.Mutex("/asked", coordinator.Revocable()).Acquire(w.ctx)
	w.granted(asked)
	eventstest.Check(w.t, other.Revoke(w.ctx, "/asked", 0))
	eventstest.Receive(w.t, asked.Lost(), "the loss of what was asked for")

	raw, session, err := zk.Connect(strings.Split(servers, ","), sessionTimeout, zk.WithLogger(eventstest.Quiet{}))
	eventstest.Must(w.t, err)
	defer raw.Close()
	for event := range session {
		if event.State == zk.StateHasSession {
			break
		}
	}
	removed := w.c.Mutex("/removed").Acquire(w.ctx)
	eventstest.Must(w.t, raw.Delete(w.granted(removed).Node, -1))
	eventstest.Receive(w.t, removed.Lost(), "the loss of what was removed")

	next := other.Mutex("/entered").Acquire(w.ctx)
	network.Partition()
	for _, a := range w.held {
		eventstest.Receive(w.t, a.Lost(), "a loss in the partition")
	}
	eventstest.Receive(w.t, next.Granted(), "the Grant of the next holder")
	network.Heal()
	next.Release()
	eventstest.Receive(w.t, next.Done(), "the end of the next holder")
	w.granted(w.next)
	eventstest.Contains(w.t, w.scrape(), `zkgrant_requeued_total{lock="/written"} 1`,
		"a waiter was queued again")
	eventstest.Contains(w.t, w.scrape(), `zkgrant_revoked_total{lock="/asked"} 1`, "one holder was asked")
	w.shows("locks were lost in every way", `
		waiting{write,/written}=0 held{mutex,/entered}=0 held{read,/rw}=0 held{semaphore,/permits}=0
		held{multi,/m/a}=0 held{multi,/m/b}=0 held{election,/leader}=0 held{unfair,/claim}=0
		acquire{write,/written,granted}=2 acquire{mutex,/asked,granted}=1 acquire{mutex,/removed,granted}=1
		hold{lost,mutex,/asked}=1 lost{/asked,revoked}=1 hold{lost,mutex,/removed}=1 lost{/removed,node_removed}=1
		hold{lost,mutex,/entered}=2 lost{/entered,lease_ran_out}=2 hold{lost,read,/rw}=2 lost{/rw,lease_ran_out}=2
		hold{lost,write,/written}=1 lost{/written,lease_ran_out}=1 hold{lost,multi,/m/a}=1
		lost{/m/a,lease_ran_out}=1 hold{lost,semaphore,/permits}=2 lost{/permits,lease_ran_out}=2
		hold{lost,election,/leader}=1 lost{/leader,lease_ran_out}=1 hold{lost,unfair,/claim}=1
		lost{/claim,lease_ran_out}=1`)
}

// end releases everything, and repeats earlier steps: a rate needs counters that were
// scraped before.
func (w *witness) end() {
	w.tasks(3)
	w.releases(w.next)
	w.shows("all are released", `
		held{write,/written}=0 acquire{mutex,/tasks/*,granted}=33 hold{released,mutex,/tasks/*}=33
		hold{released,write,/written}=1`)
}

func (w *witness) scrape() string {
	text, err := get(w.page)
	eventstest.Must(w.t, err)
	return text
}

// get reads a page, and leaves no connection open.
func get(page string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(page)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", page, answer.Status, text)
	}
	return string(text), err
}

// shows waits until a scrape has exactly these samples and the earlier ones that they do
// not replace.
func (w *witness) shows(when, changed string) {
	w.t.Helper()
	full := strings.NewReplacer("lost{", "lost_total{", "acquire{", "acquire_duration_seconds_count{",
		"hold{", "hold_duration_seconds_count{")
	for sample := range strings.FieldsSeq(full.Replace(changed)) {
		name, value, _ := strings.Cut(sample, "=")
		w.want[name] = value
	}
	want := "waiting held lost_total acquire_duration_seconds_count hold_duration_seconds_count"
	for name, value := range w.want {
		if value != "0" {
			want += " " + name + "=" + value
		}
	}
	var wrong []string
	eventstest.Eventually(w.t, when, func() bool {
		wrong = differences(parsed(w.scrape()), want)
		return len(wrong) == 0
	}, func() string { return strings.Join(wrong, "\n") })
}
