package zkotel_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkotel"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockPath = coordtest.LockPath

func ended(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	eventstest.Must(t, coordtest.EndOf(t, a))
}

// TestSpansTellTheLifeOfALock: a contender waits behind another, is granted the lock, and
// loses it.
func TestSpansTellTheLifeOfALock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p := newProbe()
		c, other := coordtest.Connect(t, srv, coordinator.WithHooks(p)), coordtest.Connect(t, srv)
		first, _ := coordtest.Hold(t, other.Mutex(lockPath))
		ctx, caller := p.tracer.Start(t.Context(), "caller")
		a := c.Mutex(lockPath).Acquire(ctx)
		time.Sleep(time.Minute)
		must(t, "while one waits", p.metrics(t), map[string]float64{
			"waiting kind=mutex lock=/locks/reindex": 1, "held kind=mutex lock=/locks/reindex": 0,
			"longest_wait lock=/locks/reindex": 60, "longest_hold lock=/locks/reindex": none, "queue.ahead lock=/locks/reindex": 1,
			"session.state state=connected": 1, "session.state state=suspended": 0, "session.events event=connected": 1,
			"request.duration op=connect result=ok": 1,
		})
		ended(t, first)
		grant, err := a.Wait(t.Context())
		eventstest.Must(t, err)
		caller.End() // before the lock is lost
		time.Sleep(2 * time.Minute)
		must(t, "while one holds", p.metrics(t), map[string]float64{
			"waiting kind=mutex lock=/locks/reindex": 0, "held kind=mutex lock=/locks/reindex": 1,
			"longest_wait lock=/locks/reindex": none, "longest_hold lock=/locks/reindex": 120, "queue.ahead lock=/locks/reindex": none,
			"acquire.duration kind=mutex lock=/locks/reindex outcome=granted":     1,
			"acquire.duration.sum kind=mutex lock=/locks/reindex outcome=granted": 60,
		})
		synctest.Wait() // a probe may be answered at that instant
		left := time.Until(a.Deadline()).Seconds()
		eventstest.Expect(t, left > 0, "the lease has %v s left, want some", left)
		must(t, "while one holds", p.metrics(t), map[string]float64{"lease.remaining": left})
		eventstest.Must(t, srv.Delete(grant.Node))
		loss := <-a.Lost()
		must(t, "after the loss", p.metrics(t), map[string]float64{
			"waiting kind=mutex lock=/locks/reindex": none, "held kind=mutex lock=/locks/reindex": none,
			"lost lock=/locks/reindex reason=node_removed":              1,
			"hold.duration end=lost kind=mutex lock=/locks/reindex":     1,
			"hold.duration.sum end=lost kind=mutex lock=/locks/reindex": loss.Held.Seconds(),
		})
		p.mustTell(t,
			"acquire client 1m0s lock.path=/locks/reindex lock.kind=mutex lock.try=false acquire.outcome=granted | queued 0s queue.ahead=1",
			"hold internal 2m0s lock.path=/locks/reindex lock.kind=mutex hold.end=lost type=node_removed Error",
		)
		acquire, hold := p.spans("acquire")[0], p.spans("hold")[0]
		for _, s := range []sdktrace.ReadOnlySpan{acquire, hold} {
			eventstest.Equal(t, s.Parent().SpanID(), caller.SpanContext().SpanID(), "the parent of %s", s.Name())
			eventstest.Equal(t, valueOf(s, "zkgrant.lock.token").AsInt64(), grant.Token, "the token of %s", s.Name())
			eventstest.Equal(t, valueOf(s, "zkgrant.session.id").AsString(), hex(c.SessionID()),
				"the session of %s", s.Name())
			host, port := valueOf(s, "server.address").AsString(), valueOf(s, "server.port").AsInt64()
			eventstest.Expect(t, host != "" && port != 0,
				"%s has the attributes %v, want the server %s", s.Name(), s.Attributes(), srv.Addr())
		}
		links := hold.Links()
		eventstest.Expect(t, len(links) == 1 && links[0].SpanContext.SpanID() == acquire.SpanContext().SpanID(),
			"hold has the links %v, want one to acquire, %v", links, acquire.SpanContext().SpanID())
		eventstest.Equal(t, p.Live(), 0, "the acquisitions that the hook knows after the end")
	})
}

// TestEachKindOfEnd: acquisitions with another course than Grant and release.
func TestEachKindOfEnd(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(t *testing.T, c *coordinator.Coordinator, srv *zktest.Server)
		want []string
	}{
		"a Try that is refused": {func(t *testing.T, c *coordinator.Coordinator, _ *zktest.Server) {
			<-c.Mutex(lockPath).Acquire(t.Context(), coordinator.Try()).Done()
		}, []string{"acquire client 0s lock.path=/locks/reindex lock.kind=mutex lock.try=true acquire.outcome=taken"}},
		"a longest wait": {func(t *testing.T, c *coordinator.Coordinator, _ *zktest.Server) {
			<-c.Mutex(lockPath).Acquire(t.Context(), coordinator.MaxWait(time.Second)).Done()
		}, []string{"acquire client 1s lock.path=/locks/reindex lock.kind=mutex lock.try=false acquire.outcome=timeout type=timeout Error | queued 0s queue.ahead=1"}},
		"a second entry": {func(t *testing.T, c *coordinator.Coordinator, _ *zktest.Server) {
			lock := c.Mutex("/a", coordinator.Reentrant())
			a, _ := coordtest.Hold(t, lock)
			b := lock.Acquire(a.Context(t.Context()))
			coordtest.Soon(t, b)
			time.Sleep(time.Second)
			ended(t, b)
			time.Sleep(time.Second)
			ended(t, a)
		}, []string{
			"acquire client 0s lock.path=/a lock.kind=mutex lock.try=false acquire.outcome=granted",
			"acquire client 0s lock.path=/a lock.kind=mutex lock.try=false acquire.outcome=granted",
			"hold internal 1s lock.path=/a lock.kind=mutex hold.end=released",
			"hold internal 2s lock.path=/a lock.kind=mutex hold.end=released",
		}},
		"a multi-lock": {func(t *testing.T, c *coordinator.Coordinator, _ *zktest.Server) {
			a := c.Multi(c.Mutex("/a"), c.ReadWrite("/b").Read()).Acquire(t.Context())
			coordtest.Soon(t, a)
			ended(t, a)
		}, []string{
			"acquire client 0s lock.path=/a lock.kind=multi lock.try=false acquire.outcome=granted",
			`hold internal 0s lock.path=/a lock.kind=multi lock.members=["/a","/b"] hold.end=released`,
		}},
		"permits": {func(t *testing.T, c *coordinator.Coordinator, _ *zktest.Server) {
			a := c.Semaphore("/a", 3).Acquire(t.Context(), coordinator.Permits(2))
			coordtest.Soon(t, a)
			ended(t, a)
		}, []string{
			"acquire client 0s lock.path=/a lock.kind=semaphore lock.try=false lock.permits=2 acquire.outcome=granted",
			"hold internal 0s lock.path=/a lock.kind=semaphore hold.end=released",
		}},
		// The trace that the docs show.
		"a connection that drops, and a loss": {func(t *testing.T, c *coordinator.Coordinator, srv *zktest.Server) {
			first, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex("/a"))
			a := coordtest.Queue(c.Mutex("/a"))
			time.Sleep(20 * time.Second)
			srv.Cut(c.SessionID())
			time.Sleep(40 * time.Second)
			ended(t, first)
			grant := coordtest.Soon(t, a)
			time.Sleep(2 * time.Minute)
			eventstest.Must(t, srv.Delete(grant.Node))
			<-a.Lost()
		}, []string{
			"acquire client 1m0s lock.path=/a lock.kind=mutex lock.try=false acquire.outcome=granted" +
				" | queued 0s queue.ahead=1 | suspended 20s | resumed 20s | queued 20s queue.ahead=1",
			"hold internal 2m0s lock.path=/a lock.kind=mutex hold.end=lost type=node_removed Error",
		}},
		"a session that ends": {func(t *testing.T, c *coordinator.Coordinator, srv *zktest.Server) {
			a := coordtest.Queue(c.Mutex(lockPath))
			eventstest.Must(t, srv.Expire(c.SessionID()))
			time.Sleep(10 * time.Second)
			a.Release()
			<-a.Done()
		}, []string{"acquire client 10s lock.path=/locks/reindex lock.kind=mutex lock.try=false acquire.outcome=withdrawn" +
			" | queued 0s queue.ahead=1 | suspended 0s | expired 0s | requeued 0s | connected 0s | queued 0s queue.ahead=1"}},
		"a revocation that is not obeyed": {func(t *testing.T, c *coordinator.Coordinator, srv *zktest.Server) {
			a, _ := coordtest.Hold(t, c.Mutex("/a", coordinator.Revocable()))
			other := coordtest.Connect(t, srv)
			eventstest.Must(t, other.Revoke(t.Context(), "/a", 5*time.Second))
			<-a.Lost()
		}, []string{
			"acquire client 0s lock.path=/a lock.kind=mutex lock.try=false acquire.outcome=granted",
			"hold internal 5s lock.path=/a lock.kind=mutex hold.end=lost type=revoked Error | revoked 0s",
		}},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			p := newProbe()
			c := coordtest.Connect(t, srv, coordinator.WithHooks(p))
			coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
			test.do(t, c, srv)
			synctest.Wait()
			p.mustTell(t, test.want...)
			eventstest.Equal(t, p.Live(), 0, "the acquisitions that the hook knows after their ends")
		})
	}
}

// TestEachEventReachesItsSpans: an event of an acquisition is added to that one's spans
// only, and an event of the session to those of each acquisition. Only the latter are
// counted as events of the session. A new type of event needs a case here and in OnEvent.
func TestEachEventReachesItsSpans(t *testing.T) {
	cases := map[string]struct {
		event events.Event
		noted string // the event in the spans
	}{
		"Grant":          {events.Grant{ID: 1}, ""},
		"Lost":           {events.Lost{ID: 1, Err: &coordinator.LostError{}}, ""},
		"Ended":          {events.Ended{ID: 1}, ""},
		"Queued":         {events.Queued{ID: 1}, "queued"},
		"Requeued":       {events.Requeued{ID: 1}, "requeued"},
		"Revoked":        {events.Revoked{ID: 1}, "revoked"},
		"Contended":      {events.Contended{ID: 1}, "contended"},
		"Connected":      {events.Connected{}, "connected"},
		"Suspended":      {events.Suspended{}, "suspended"},
		"Resumed":        {events.Resumed{}, "resumed"},
		"SessionExpired": {events.SessionExpired{}, "expired"},
	}
	source, err := os.ReadFile("../../../events/event.go")
	eventstest.Must(t, err)
	types := regexp.MustCompile(`(?m)^func \((\w+)\) isEvent\(\)`).FindAllStringSubmatch(string(source), -1)
	for _, name := range types {
		_, ok := cases[name[1]]
		eventstest.Expect(t, ok, "there is no case for events.%s", name[1])
	}
	eventstest.Equal(t, len(types), len(cases), "the types of events")
	for name, test := range cases {
		p := newProbe()
		for id := range uint64(2) {
			p.OnAcquire(t.Context(), hooks.Acquire{ID: id + 1, Path: "/a", Kind: "mutex"})
		}
		p.OnEvent(test.event)
		metrics := p.metrics(t)
		for id := range uint64(2) {
			p.OnEvent(events.Ended{ID: id + 1})
		}
		ofSession, spans, counts := test.event.AcquisitionID() == 0, 0, map[string]float64{}
		switch {
		case ofSession:
			spans, counts["session.events event="+test.noted] = 2, 1
		case test.noted != "":
			spans = 1
		}
		for _, s := range p.recorder.Ended() {
			for _, e := range s.Events() {
				eventstest.Equal(t, e.Name, test.noted, "the name of %s in a span", name)
				spans--
			}
		}
		eventstest.Equal(t, spans, 0, "the spans that %s has not reached", name)
		maps.DeleteFunc(metrics, func(name string, _ float64) bool { return !strings.HasPrefix(name, "session.events") })
		eventstest.Expect(t, maps.Equal(metrics, counts), "%s is counted as %v, want %v", name, metrics, counts)
	}
}

func TestAnElectionHasALeader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p, q := newProbe(), newProbe()
		c, d := coordtest.Connect(t, srv, coordinator.WithHooks(p)), coordtest.Connect(t, srv, coordinator.WithHooks(q))
		a := c.Election("/service").Acquire(t.Context())
		coordtest.Soon(t, a)
		b := d.Election("/service").Acquire(t.Context())
		synctest.Wait()
		must(t, "while one leads", p.metrics(t), map[string]float64{"leader election=/service": 1})
		must(t, "while the other waits", q.metrics(t), map[string]float64{"leader election=/service": 0})
		ended(t, a)
		coordtest.Soon(t, b)
		must(t, "after the end of the term", p.metrics(t), map[string]float64{"leader election=/service": none})
		must(t, "when the other leads", q.metrics(t), map[string]float64{"leader election=/service": 1})
	})
}

// TestTheLeaseAndTheSession: the gauges follow the session through an outage to its end.
func TestTheLeaseAndTheSession(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p := newProbe()
		c := coordtest.Connect(t, srv, coordinator.WithHooks(p))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.Mute(c.SessionID(), true)
		<-a.Lost()
		must(t, "when the lease has run out", p.metrics(t), map[string]float64{
			"lease.remaining": 0, "session.events event=lease_ran_out": 1, "lost lock=/locks/reindex reason=lease_ran_out": 1,
		})
		srv.Mute(c.SessionID(), false)
		time.Sleep(time.Minute)
		eventstest.Must(t, c.Close())
		must(t, "when the coordinator is closed", p.metrics(t), map[string]float64{
			"lease.remaining": none, "session.state state=closed": 1, "session.state state=connected": 0, "request.duration op=closeSession result=ok": 1,
		})
		eventstest.Must(t, p.Close())
		must(t, "when the hook is closed", p.metrics(t), map[string]float64{"session.state state=closed": none, "lost lock=/locks/reindex reason=lease_ran_out": 1})
	})
}

// TestAProcessorMayCollect: the hook's mutex is not held while a span processor runs, so
// the processor may collect the metrics.
func TestAProcessorMayCollect(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p := newProbe()
		var values []map[string]float64
		collect := &collector{func() { values = append(values, p.metrics(t)) }}
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(collect))
		hook := zkotel.New(zkotel.WithTracerProvider(tracers))
		c := coordtest.Connect(t, srv, coordinator.WithHooks(p, hook))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		ended(t, a)
		eventstest.Equal(t, len(values), 4, "how often a processor has collected at two spans")
	})
}

type collector struct{ do func() }

func (c *collector) OnStart(context.Context, sdktrace.ReadWriteSpan) { c.do() }
func (c *collector) OnEnd(sdktrace.ReadOnlySpan)                     { c.do() }
func (c *collector) Shutdown(context.Context) error                  { return nil }
func (c *collector) ForceFlush(context.Context) error                { return nil }

// TestManyLocksLeaveNothing: memory and names are bounded by the live acquisitions.
func TestManyLocksLeaveNothing(t *testing.T) {
	p := newProbe()
	for id := range uint64(10_000) {
		path := "/tasks/" + hex(int64(id))
		p.OnAcquire(t.Context(), hooks.Acquire{ID: id, Path: path, Kind: "unfair"})
		p.OnEvent(events.Grant{ID: id, Path: path})
		p.OnEvent(events.Ended{ID: id, Path: path, Held: time.Second})
	}
	eventstest.Equal(t, p.Live(), 0, "the acquisitions that the hook knows after their ends")
	for _, event := range []events.Event{ // of an acquisition that has ended
		events.Queued{ID: 9}, events.Requeued{ID: 9}, events.Grant{ID: 9}, events.Revoked{ID: 9}, events.Lost{ID: 9}, events.Ended{ID: 9},
	} {
		p.OnEvent(event)
	}
	eventstest.Equal(t, len(p.recorder.Ended()), 20_000, "spans after the end")
	eventstest.Equal(t, p.Live(), 0, "acquisitions after the end")
	n := len(p.metrics(t))
	eventstest.Expect(t, n <= 400, "10,000 tasks have %d values, want 51 names of few metrics", n)
}

// TestOnlySampledSpansPay: an unsampled span has no attributes and no events.
func TestOnlySampledSpansPay(t *testing.T) {
	run := func(sampler sdktrace.Sampler) float64 {
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
		hook := zkotel.New(zkotel.WithTracerProvider(tracers))
		return testing.AllocsPerRun(100, func() {
			hook.OnAcquire(t.Context(), hooks.Acquire{ID: 1, Path: "/a", Kind: "mutex"})
			for range 100 {
				hook.OnEvent(events.Queued{ID: 1, Path: "/a", Ahead: 1})
			}
			hook.OnEvent(events.Ended{ID: 1, Path: "/a", Err: coordinator.ErrNotAcquired})
		})
	}
	never, always := run(sdktrace.NeverSample()), run(sdktrace.AlwaysSample())
	eventstest.Expect(t, never <= 20 && always >= 200,
		"an acquisition with 100 events takes %v allocations without sampling and %v with it", never, always)
}

// TestWhatNoEventSays: after a Requeued, the number of contenders ahead is the last one
// known. A Grant that nobody took was held until its end.
func TestWhatNoEventSays(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p := newProbe()
		p.OnAcquire(t.Context(), hooks.Acquire{ID: 1, Path: "/a", Kind: "mutex"})
		p.OnEvent(events.Queued{ID: 1, Ahead: 2})
		p.OnEvent(events.Requeued{ID: 1})
		must(t, "requeued", p.metrics(t), map[string]float64{"queue.ahead lock=/a": 2})
		p.OnEvent(events.Grant{ID: 1})
		time.Sleep(time.Second)
		p.OnEvent(events.Ended{ID: 1})
		must(t, "ended", p.metrics(t), map[string]float64{"hold.duration.sum end=released kind=mutex lock=/a": 1})
	})
}

// TestNamesOfYourOwn: spans still have the path.
func TestNamesOfYourOwn(t *testing.T) {
	p := newProbe(zkotel.WithLockLabel(func(string) string { return "tasks" }))
	p.OnAcquire(t.Context(), hooks.Acquire{ID: 1, Path: "/tasks/17", Kind: "unfair"})
	p.OnEvent(events.Requeued{ID: 1})
	p.OnEvent(events.Grant{ID: 1, Abandoned: &events.Abandoned{Token: 7}})
	p.OnEvent(events.Lost{ID: 1, Reason: events.ReasonRevoked, Err: &coordinator.LostError{}})
	must(t, "with a function for names", p.metrics(t), map[string]float64{
		"requeued lock=tasks": 1, "abandoned lock=tasks": 1, "lost lock=tasks reason=revoked": 1,
	})
	hold := p.spans("hold")[0]
	eventstest.Equal(t, valueOf(hold, "zkgrant.lock.path").AsString(), "/tasks/17", "the span has the path")
	e := hold.Events()
	token := attribute.Int64("zkgrant.abandoned.token", 7)
	eventstest.Expect(t, len(e) == 1 && e[0].Name == "abandoned" && e[0].Attributes[0] == token,
		"the span of a Grant that tells of a crash has the events %v, want one with the token 7", e)
}

// TestHeldCountsNodesAndPermits: a reentered mutex counts as held once, so that more than
// one holder can raise an alarm. A multi-lock counts as held at each of its members.
func TestHeldCountsNodesAndPermits(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p := newProbe()
		c := coordtest.Connect(t, srv, coordinator.WithHooks(p))
		lock := c.Mutex("/a", coordinator.Reentrant(), coordinator.Revocable())
		a, _ := coordtest.Hold(t, lock)
		coordtest.Soon(t, lock.Acquire(a.Context(t.Context())))
		coordtest.Soon(t, c.Semaphore("/s", 3).Acquire(t.Context(), coordinator.Permits(2)))
		multi := c.Multi(c.Mutex("/m"), c.ReadWrite("/n").Read()).Acquire(t.Context())
		coordtest.Soon(t, multi)
		for _, grace := range []time.Duration{time.Hour, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // Revoke waits for the holder
			eventstest.ErrorIs(t, c.Revoke(ctx, "/a", grace), context.DeadlineExceeded, "Revoke")
			cancel()
		}
		must(t, "while all are held", p.metrics(t), map[string]float64{
			"held kind=mutex lock=/a": 1, "held kind=semaphore lock=/s": 2, "revoked lock=/a": 2, // of two acquisitions, twice each
			"held kind=multi lock=/m": 1, "held kind=multi lock=/n": 1, "longest_hold lock=/m": 2, "longest_hold lock=/n": 2,
			"acquire.duration kind=multi lock=/m outcome=granted": 1, "acquire.duration kind=multi lock=/n outcome=granted": none,
		})
		ended(t, multi)
		must(t, "after the end", p.metrics(t), map[string]float64{"held kind=multi lock=/m": none, "held kind=multi lock=/n": none})
	})
}

// TestTheServerIsTheOneThatAnsweredLast: Resumed does not name the server, and a request
// without an answer proves nothing.
func TestTheServerIsTheOneThatAnsweredLast(t *testing.T) {
	p := newProbe()
	p.OnAcquire(t.Context(), hooks.Acquire{ID: 1, Path: "/a", Kind: "mutex"})
	p.OnEvent(events.Connected{Session: -1, Server: "zk1:2181"})
	p.OnRequest(hooks.Request{Op: "connect", Server: "[::1]:2182"})
	p.OnRequest(hooks.Request{Op: "ping", Server: "zk3:2183", Err: zk.ErrConnectionClosed})
	p.OnEvent(events.Ended{ID: 1, Path: "/a", Err: coordinator.ErrNotAcquired})
	acquire := p.spans("acquire")[0]
	eventstest.Equal(t, valueOf(acquire, "server.address").AsString(), "::1", "the server's address")
	eventstest.Equal(t, valueOf(acquire, "server.port").AsInt64(), 2182, "the server's port")
	eventstest.Equal(t, valueOf(acquire, "zkgrant.session.id").AsString(), "0xffffffffffffffff", "the session")
}
