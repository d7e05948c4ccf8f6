package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// addTo returns a function for Update that adds one in place, and counts its calls.
func addTo(calls *int) func([]byte, bool) ([]byte, error) {
	return func(old []byte, _ bool) ([]byte, error) {
		*calls++
		n, _ := strconv.Atoi(string(old))
		return strconv.AppendInt(old[:0], int64(n+1), 10), nil
	}
}

// updates reads and writes state under a lock of each kind.
func updates(t *testing.T, s *site) {
	t.Helper()
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	c := s.connect(coordinator.WithAuth("digest", []byte("ann:secret")))
	rw, withACL := c.ReadWrite("/locks/rw"), coordinator.ACL(acl)
	for i, l := range []coordinator.Handle{
		c.Mutex("/locks/m", withACL), rw.Read(), rw.Write(), c.Semaphore("/locks/s", 2), c.Election("/locks/e"), c.Unfair("/locks/u"),
		c.Multi(c.Mutex("/locks/1", withACL), c.Mutex("/locks/2")), c.Mutex("/locks/c", coordinator.Cached()),
	} {
		path, ctx, calls := fmt.Sprintf("/state/%d/counter", i), coordtest.RealContext(t), 0
		a, _ := coordtest.HoldReal(t, l)
		data, stat, err := a.Get(ctx, path)
		expect(t, data == nil && stat == nil && errors.Is(err, zk.ErrNoNode),
			"%d: Get of no node = %q, %v, %v; want zk.ErrNoNode", i, data, stat, err)
		for range 2 {
			eventstest.Check(t, a.Update(ctx, path, addTo(&calls)))
		}
		enough := errors.New("enough")
		expectError(t, a.Update(ctx, path, func([]byte, bool) ([]byte, error) { return []byte("no"), enough }), enough, "an error of f")
		eventstest.Check(t, a.Update(ctx, path, func(old []byte, exists bool) ([]byte, error) {
			expect(t, exists && string(old) == "2", "%d: f got %q, %v; want 2", i, old, exists)
			return old, nil
		}))
		eventstest.Check(t, a.Update(ctx, "/state/none", func([]byte, bool) ([]byte, error) { return nil, nil }))
		data, stat, err = a.Get(ctx, path)
		expect(t, err == nil && string(data) == "2" && stat.Version == 1 && calls == 2,
			"%d: Get = %q, %+v, %v after %d calls; want 2, written twice", i, data, stat, err, calls)
		_, _, err = a.Get(ctx, "/state/none")
		expectError(t, err, zk.ErrNoNode, "what f did not make")
		for _, made := range []string{path, path[:len("/state/0")]} {
			got, _, err := s.raw.GetACL(s.root + made)
			want := zk.WorldACL(zk.PermAll)
			if i == 0 || i == 6 {
				want = acl
			}
			expect(t, err == nil && slices.Equal(got, want), "%d: %s has the ACL %v, %v; want that of the lock, %v", i, made, got, err, want)
		}
		coordtest.End(a)
	}
}

func TestStateIsReadAndWrittenUnderEachKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := onTheDouble(t, srv)
		eventstest.Must(t, s.raw.AddAuth("digest", []byte("ann:secret")))
		updates(t, s)
	})
}

// TestRealState does the same on a real server. Then each server of an ensemble counts,
// and no count is lost.
func TestRealState(t *testing.T) {
	s := onARealServer(t)
	eventstest.Must(t, s.raw.AddAuth("digest", []byte("ann:secret")))
	updates(t, s)

	const each = 20
	e, ctx, calls := coordtest.Servers(t, 3), coordtest.RealContext(t), [3]int{}
	var locks [3]*coordinator.Lock
	for i := range locks {
		locks[i] = coordtest.ConnectReal(t, e.Addr(i)+"/"+t.Name()).Mutex("/locks/counter")
	}
	var counting sync.WaitGroup
	for i, lock := range locks {
		counting.Go(func() {
			for range each {
				eventstest.Check(t, lock.Do(ctx, func(ctx context.Context, _ events.Grant) error {
					a, _ := coordinator.FromContext(ctx)
					return a.Update(ctx, "/counter", addTo(&calls[i]))
				}))
			}
		})
	}
	counting.Wait()
	a, _ := coordtest.HoldReal(t, locks[0])
	data, stat, err := a.Get(ctx, "/counter")
	expect(t, err == nil && string(data) == "60" && stat.Version == 59 && calls == [3]int{each, each, each},
		"counted %q, %+v, %v in %v calls; want 60", data, stat, err, calls)
}

// Without the lock no request is sent, and f is not called.
func TestUpdateWithoutTheLockSendsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, _ := holder(t, srv)
		waiter := coordtest.Queue(c.Mutex(lockPath))
		sent, calls := coordtest.Traffic(srv), 0
		fails := func(what string, a *coordinator.Acquisition, path string, want error) {
			_, _, err := a.Get(t.Context(), path)
			expectError(t, err, want, "Get, "+what)
			expectError(t, a.Update(t.Context(), path, addTo(&calls)), want, "Update, "+what)
		}
		fails("waiting", waiter, ledgerPath, coordinator.ErrNotAcquired)
		fails("a bad path", a, "ledger", coordinator.ErrPath)
		expectError(t, a.Update(t.Context(), "/r/lock-0000000000", addTo(&calls)), coordinator.ErrPath, "a contender's name")
		expectError(t, a.Update(t.Context(), ledgerPath, nil), coordinator.ErrInvalid, "no function")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expectError(t, a.Update(ctx, ledgerPath, addTo(&calls)), context.Canceled, "an ended context")
		expect(t, sent.Load() == 0, "%d requests were sent, want none", sent.Load())
		a.Release()
		fails("released", a, ledgerPath, coordinator.ErrReleased)
		<-waiter.Granted()
		expire(t, srv, c)
		<-waiter.Lost()
		fails("lost", waiter, ledgerPath, coordinator.ErrSessionExpired)
		expect(t, calls == 0 && written(srv) == "", "f was called %d times, and %q is written; want neither", calls, written(srv))
	})
}

// TestUpdateAfterAnAnswer: another write comes between the read and the write, or the
// answer to the write is lost. No count is lost, and none counts twice.
func TestUpdateAfterAnAnswer(t *testing.T) {
	type story struct {
		first   string // the ledger's data; empty: no ledger
		shared  bool
		action  func(srv *zktest.Server, c *coordinator.Coordinator) zktest.Action // at the first write
		after   func(srv *zktest.Server)                                           // once its connection has ended
		written string
		calls   int
		want    error
	}
	set := func(text string) func(*zktest.Server) {
		return func(srv *zktest.Server) { _ = srv.SetData(ledgerPath, []byte(text)) }
	}
	before := func(other func(*zktest.Server), action zktest.Action) func(*zktest.Server, *coordinator.Coordinator) zktest.Action {
		return func(srv *zktest.Server, _ *coordinator.Coordinator) zktest.Action {
			other(srv)
			return action
		}
	}
	none := func(*zktest.Server) {}
	lostReply, lostWrite := before(none, zktest.CutAfter()), before(none, zktest.CutBefore())
	gone := func(srv *zktest.Server) { _ = srv.Delete(ledgerPath) }
	anew := func(srv *zktest.Server) {
		gone(srv)
		_ = srv.Create(ledgerPath, []byte("11"))
	}
	made := func(srv *zktest.Server) { _ = srv.Create(ledgerPath, []byte("50")) }
	unknown := coordinator.ErrOutcomeUnknown
	forEach(t, map[string]story{
		"another wrote":                   {first: "10", action: before(set("50"), zktest.Pass()), written: "51", calls: 2},
		"another made it":                 {action: before(made, zktest.Pass()), written: "51", calls: 2},
		"another deleted it":              {first: "10", action: before(gone, zktest.Pass()), written: "1", calls: 2},
		"the reply is lost":               {first: "10", action: lostReply, written: "11", calls: 1},
		"the reply is lost, of a create":  {action: lostReply, written: "1", calls: 1},
		"the write is lost":               {first: "10", action: lostWrite, written: "11", calls: 1},
		"the write is lost, of a create":  {action: lostWrite, written: "1", calls: 1},
		"the write is lost, and another":  {first: "10", action: before(set("50"), zktest.CutBefore()), written: "50", calls: 1, want: unknown},
		"the reply is lost, then another": {first: "10", action: lostReply, after: set("50"), written: "50", calls: 1, want: unknown},
		"the reply is lost, then a new":   {first: "10", action: lostReply, after: anew, written: "11", calls: 1, want: unknown},
		// Two readers of one number write the same bytes, so the data do not show whose
		// write it was.
		"the reply is lost, of a reader": {first: "10", shared: true, action: lostReply, written: "11", calls: 1, want: unknown},
		"the write is lost, of a reader": {first: "10", shared: true, action: lostWrite, written: "11", calls: 1},
		"a reader's create is removed":   {shared: true, action: lostReply, after: gone, calls: 1, want: unknown},
		"the session ends": {first: "10", action: func(srv *zktest.Server, c *coordinator.Coordinator) zktest.Action {
			go func() { _ = srv.Expire(c.SessionID()) }()
			return zktest.CutBefore()
		}, written: "10", calls: 1, want: unknown},
	}, func(t *testing.T, srv *zktest.Server, x story) {
		if x.first != "" {
			eventstest.Must(t, srv.Create(ledgerPath, []byte(x.first)))
		}
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath)
		if x.shared {
			lock = c.ReadWrite(lockPath).Read()
		}
		a, _ := coordtest.Hold(t, lock)
		struck := false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case writesLedger(r) && !struck:
				struck = true
				return x.action(srv, c)
			case struck && x.after != nil && r.Op == zktest.OpConnect:
				x.after(srv)
				x.after = nil
			}
			return zktest.Pass()
		})
		calls := 0
		expectError(t, a.Update(within(t, time.Hour), ledgerPath, addTo(&calls)), x.want, "Update")
		expect(t, calls == x.calls && written(srv) == x.written,
			"after %d calls of f %q is written, want %d and %q", calls, written(srv), x.calls, x.written)
	})
}

// TestUpdatesBesideEachOther, two at a time under one lock: an Update that reports
// success has counted.
func TestUpdatesBesideEachOther(t *testing.T) {
	for name, action := range map[string]zktest.Action{"reply": zktest.CutAfter(), "write": zktest.CutBefore()} {
		for _, again := range []bool{false, true} {
			coordtest.Case(t, name+strconv.FormatBool(again), func(t *testing.T, srv *zktest.Server) {
				eventstest.Must(t, srv.Create(ledgerPath, []byte("10")))
				lock := coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Reentrant())
				a, _ := coordtest.Hold(t, lock)
				b := a
				if again {
					b = lock.Acquire(a.Context(t.Context()))
					coordtest.Soon(t, b)
				}
				once(srv, action, writesLedger)
				ctx := within(t, time.Hour)
				var wg, both sync.WaitGroup
				var errs [2]error
				var calls [2]int
				both.Add(2)
				for i, by := range []*coordinator.Acquisition{a, b} {
					wg.Go(func() {
						f := addTo(&calls[i])
						errs[i] = by.Update(ctx, ledgerPath, func(old []byte, exists bool) ([]byte, error) {
							if calls[i] == 0 {
								both.Done()
								both.Wait()
							}
							return f(old, exists)
						})
					})
				}
				wg.Wait()
				least, most := 10, 10
				for _, err := range errs {
					switch {
					case err == nil:
						least++
						most++
					case errors.Is(err, coordinator.ErrOutcomeUnknown):
						most++
					}
				}
				got, _ := strconv.Atoi(written(srv))
				expect(t, got >= least && got <= most, "Updates = %v after %v calls, and %d is written; want %d to %d", errs, calls, got, least, most)
			})
		}
	}
}
