package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A lock that is entered again by whoever holds it.

// sides are the handles of a lock that queue, as a function of the coordinator: each of
// them is entered again by its own kind.
func sides() map[string]func(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	return map[string]func(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock{
		"mutex": func(c *coordinator.Coordinator, o ...coordinator.LockOption) *coordinator.Lock {
			return c.Mutex(lockPath, o...)
		},
		"write": func(c *coordinator.Coordinator, o ...coordinator.LockOption) *coordinator.Lock {
			return c.ReadWrite(lockPath, o...).Write()
		},
		"read": func(c *coordinator.Coordinator, o ...coordinator.LockOption) *coordinator.Lock {
			return c.ReadWrite(lockPath, o...).Read()
		},
	}
}

// nested takes a lock so many deep, each with the context of the one before.
func nested(t *testing.T, l *coordinator.Lock, deep int) []*coordinator.Acquisition {
	t.Helper()
	var all []*coordinator.Acquisition
	ctx := context.Background()
	for range deep {
		a := l.Acquire(ctx)
		coordtest.Soon(t, a)
		all, ctx = append(all, a), a.Context(ctx)
	}
	return all
}

// TestEnteredAgainWithoutARequest: the one node is the first one's, and so is the token;
// the acquisition is its own. What it asks for beside that does not matter: it is no create.
func TestEnteredAgainWithoutARequest(t *testing.T) {
	for name, side := range sides() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				lock := side(c, coordinator.Reentrant())
				outer, first := coordtest.Hold(t, lock, coordinator.WithData([]byte("first")))
				stream := c.Events(t.Context())
				time.Sleep(time.Minute)
				synctest.Wait()
				sent := coordtest.Traffic(srv)
				ctx := outer.Context(t.Context())
				for i, options := range [][]coordinator.AcquireOption{
					nil, {coordinator.Try()}, {coordinator.WithMaxWait(time.Nanosecond)}, {coordinator.WithData([]byte("other"))},
				} {
					inner := lock.Acquire(ctx, options...)
					synctest.Wait()
					if len(inner.Granted()) != 1 || !inner.Valid() || !inner.Deadline().Equal(outer.Deadline()) {
						t.Fatalf("%d: valid %v until %v", i, inner.Valid(), inner.Deadline())
					}
					grant := <-inner.Granted()
					if grant.Node != first.Node || grant.Token != first.Token || grant.Session != first.Session ||
						grant.ID != inner.ID() || grant.ID == first.ID || grant.Waited != 0 {
						t.Errorf("%d: %+v inside %+v", i, grant, first)
					}
					if ev := <-stream; !reflect.DeepEqual(ev, events.Event(grant)) {
						t.Errorf("%d: the stream said %+v", i, ev)
					}
					time.Sleep(time.Millisecond)
					inner.Release()
					<-inner.Done()
					if ev := <-stream; ev != (events.Ended{ID: inner.ID(), Path: lockPath, Held: time.Millisecond}) {
						t.Errorf("%d: the stream said %+v", i, ev)
					}
					if inner.Err() != nil || inner.Valid() || !outer.Valid() || coordtest.IsClosed(outer.Done()) {
						t.Errorf("%d: %v, the outer one holds %v", i, inner.Err(), outer.Valid())
					}
				}
				if n := sent.Load(); n != 0 {
					t.Errorf("%d requests", n)
				}
				if data, _ := srv.Data(first.Node); string(data) != "first" || len(srv.Children(lockPath)) != 1 {
					t.Errorf("data %q, nodes %v", data, srv.Children(lockPath))
				}
				outer.Release()
				<-outer.Done()
				if outer.Err() != nil || srv.Exists(first.Node) {
					t.Errorf("%v, the node is there: %v", outer.Err(), srv.Exists(first.Node))
				}
			})
		})
	}
}

// TestNobodyElseComesInBeforeTheLastRelease, in whatever order three are released, and
// however they are nested: another session waits, and another goroutine with a context of its own.
func TestNobodyElseComesInBeforeTheLastRelease(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				lock := c.Mutex(lockPath, coordinator.Reentrant())
				all := nested(t, lock, 3)
				outside := coordtest.Queue(other.Mutex(lockPath, coordinator.Reentrant()))
				beside := coordtest.Queue(lock)
				for left, i := range order {
					time.Sleep(time.Second)
					if outside.Valid() || beside.Valid() {
						t.Fatalf("somebody else holds with %d of three left", 3-left)
					}
					for _, later := range order[left:] {
						if !all[later].Valid() {
							t.Errorf("%d does not hold", later)
						}
					}
					all[i].Release()
					<-all[i].Done()
					if all[i].Err() != nil {
						t.Errorf("%d: %v", i, all[i].Err())
					}
				}
				next := coordtest.Soon(t, outside)
				if beside.Valid() {
					t.Error("two hold")
				}
				outside.Release()
				if last := coordtest.Soon(t, beside); last.Token <= next.Token {
					t.Errorf("%+v behind %+v", last, next)
				}
			})
		})
	}
}

// TestEnteredFromOtherGoroutines, with the context of the holder, all at once.
func TestEnteredFromOtherGoroutines(t *testing.T) {
	const many = 50
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		outside := make(chan events.Grant, 1)
		var inner []*coordinator.Acquisition
		err := lock.Do(t.Context(), func(ctx context.Context, g events.Grant) error {
			next := coordtest.Queue(other.Mutex(lockPath))
			go func() { outside <- <-next.Granted() }()
			var wait sync.WaitGroup
			var mu sync.Mutex
			for range many {
				wait.Go(func() {
					a := lock.Acquire(ctx)
					if grant := coordtest.Soon(t, a); grant.Token != g.Token {
						t.Errorf("%+v", grant)
					}
					mu.Lock()
					inner = append(inner, a)
					mu.Unlock()
				})
			}
			wait.Wait()
			if got := srv.Children(lockPath); len(got) != 2 {
				t.Errorf("nodes %v", got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for i, a := range inner { // all of them are held longer than the function ran
			synctest.Wait()
			if len(outside) > 0 || !a.Valid() {
				t.Fatalf("with %d left: valid %v, somebody else is in %v", many-i, a.Valid(), len(outside) > 0)
			}
			a.Release()
		}
		<-outside
	})
}

// TestWhoOwnsNothing queues up: before the Grant, after the end, by another coordinator, by
// a context of somebody else, and on another path. The option makes no difference.
func TestWhoOwnsNothing(t *testing.T) {
	type coord = coordinator.Coordinator
	type option = coordinator.LockOption
	type acquired = *coordinator.Acquisition
	for name, ask := range map[string]func(*testing.T, *zktest.Server, *coord, ...option) (holder, asks acquired){
		"before the Grant": func(t *testing.T, srv *zktest.Server, c *coord, o ...option) (_, _ acquired) {
			holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
			waiter := coordtest.Queue(c.Mutex(lockPath))
			a := c.Mutex(lockPath, o...).Acquire(context.WithoutCancel(waiter.Context(t.Context())))
			synctest.Wait()
			holder.Release()
			coordtest.Soon(t, waiter)
			return waiter, a
		},
		"after the end": func(t *testing.T, srv *zktest.Server, c *coord, o ...option) (_, _ acquired) {
			past, _ := coordtest.Hold(t, c.Mutex(lockPath))
			ctx := context.WithoutCancel(past.Context(t.Context()))
			past.Release()
			<-past.Done()
			holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
			return holder, c.Mutex(lockPath, o...).Acquire(ctx)
		},
		"by another coordinator": func(t *testing.T, srv *zktest.Server, c *coord, o ...option) (_, _ acquired) {
			holder, _ := coordtest.Hold(t, c.Mutex(lockPath, o...))
			ctx := context.WithoutCancel(holder.Context(t.Context())) // or the release would end the wait
			return holder, coordtest.Connect(t, srv).Mutex(lockPath, o...).Acquire(ctx)
		},
		"with another context": func(t *testing.T, _ *zktest.Server, c *coord, o ...option) (_, _ acquired) {
			lock := c.Mutex(lockPath, o...)
			holder, _ := coordtest.Hold(t, lock)
			return holder, lock.Acquire(t.Context())
		},
		"with the context of another lock": func(t *testing.T, _ *zktest.Server, c *coord, o ...option) (_, _ acquired) {
			lock := c.Mutex(lockPath, o...)
			holder, _ := coordtest.Hold(t, lock)
			other, _ := coordtest.Hold(t, c.Mutex("/locks/other", o...))
			return holder, lock.Acquire(other.Context(t.Context()))
		},
	} {
		for option, o := range map[string][]option{"": nil, "reentrant": {coordinator.Reentrant()}} {
			t.Run(name+option, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					holder, a := ask(t, srv, coordtest.Connect(t, srv), o...)
					time.Sleep(time.Second)
					if !holder.Valid() || a.Valid() || coordtest.IsClosed(a.Done()) {
						t.Fatalf("the holder holds %v, the other one %v: %v", holder.Valid(), a.Valid(), a.Err())
					}
					holder.Release()
					if grant := coordtest.Soon(t, a); !srv.Exists(grant.Node) {
						t.Errorf("%+v", grant)
					}
				})
			})
		}
	}
}

// TestWithoutTheOptionItIsADeadlock, at once and without a request, on whatever handle the
// lock is held by. It is the handle that is asked which counts.
func TestWithoutTheOptionItIsADeadlock(t *testing.T) {
	for name, side := range sides() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				plain, reentrant := side(c), side(c, coordinator.Reentrant())
				for _, held := range []*coordinator.Lock{plain, reentrant} {
					outer, _ := coordtest.Hold(t, held)
					inner := reentrant.Acquire(outer.Context(t.Context()))
					coordtest.Soon(t, inner)
					sent := coordtest.Traffic(srv)
					for _, ctx := range []context.Context{outer.Context(t.Context()), inner.Context(t.Context())} {
						a := plain.Acquire(ctx, coordinator.Try())
						if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrDeadlock) {
							t.Errorf("Err = %v", a.Err())
						}
					}
					if n := sent.Load(); n != 0 || !outer.Valid() || !inner.Valid() {
						t.Errorf("%d requests, valid %v and %v", n, outer.Valid(), inner.Valid())
					}
					inner.Release()
					outer.Release()
					<-outer.Done()
				}
			})
		})
	}
}

// TestAnUnfairLockIsNotEnteredAgain: it has one node, and that one owner.
func TestAnUnfairLockIsNotEnteredAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock := coordtest.Connect(t, srv).Unfair(lockPath, coordinator.Reentrant())
		outer, _ := coordtest.Hold(t, lock)
		inner := lock.Acquire(outer.Context(t.Context()))
		if !coordtest.IsClosed(inner.Done()) || !errors.Is(inner.Err(), coordinator.ErrDeadlock) || !outer.Valid() {
			t.Errorf("Err = %v, the outer one holds %v", inner.Err(), outer.Valid())
		}
	})
}

// TestTheSidesOfAReadWriteLock: a side is entered again, whatever else the context holds. A
// reader does not become a writer.
func TestTheSidesOfAReadWriteLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw := c.ReadWrite(lockPath, coordinator.Reentrant())
		read, _ := coordtest.Hold(t, rw.Read())
		upgrade := rw.Write().Acquire(read.Context(t.Context()))
		if !coordtest.IsClosed(upgrade.Done()) || !errors.Is(upgrade.Err(), coordinator.ErrDeadlock) {
			t.Errorf("a reader asked to write: %v", upgrade.Err())
		}
		read.Release()

		write, first := coordtest.Hold(t, rw.Write())
		read = rw.Read().Acquire(write.Context(t.Context())) // in its place
		if grant := coordtest.Soon(t, read); grant.Node == first.Node {
			t.Errorf("%+v inside %+v", grant, first)
		}
		ctx := read.Context(write.Context(t.Context()))
		again, rewrite := rw.Read().Acquire(ctx), rw.Write().Acquire(ctx)
		coordtest.Soon(t, again)
		if grant := coordtest.Soon(t, rewrite); grant.Node != first.Node {
			t.Errorf("%+v inside %+v", grant, first)
		}
		writer := coordtest.Queue(other.ReadWrite(lockPath).Write())
		reader := coordtest.Queue(other.ReadWrite(lockPath).Read())
		for _, a := range []*coordinator.Acquisition{write, read, rewrite, again} {
			synctest.Wait()
			if writer.Valid() || reader.Valid() {
				t.Fatal("somebody else is in")
			}
			a.Release()
		}
		coordtest.Soon(t, writer)
		writer.Release()
		coordtest.Soon(t, reader)
	})
}

// TestAPlaceThatAReaderTookIsNoFloor, though it was one writer that waited, another one whose
// place was taken, and perhaps a third that leaves last, all with one node. Else the writer behind
// would believe that nobody is ahead.
func TestAPlaceThatAReaderTookIsNoFloor(t *testing.T) {
	for _, deep := range []int{1, 2} {
		for by := range deep {
			for _, order := range [][]int{{0, 1}, {1, 0}} {
				t.Run(fmt.Sprint(deep, by, order), func(t *testing.T) {
					coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
						c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
						rw := c.ReadWrite(lockPath, coordinator.Reentrant())
						before, _ := coordtest.Hold(t, other.ReadWrite(lockPath).Write())
						outer := coordtest.Queue(rw.Write())
						reader := coordtest.Queue(other.ReadWrite(lockPath).Read())
						writer := coordtest.Queue(rw.Write()) // of the session that knows who has let go
						before.Release()
						coordtest.Soon(t, outer)
						all := []*coordinator.Acquisition{outer}
						late := func() {
							a := rw.Write().Acquire(outer.Context(t.Context()))
							coordtest.Soon(t, a)
							all = append(all, a)
						}
						if deep == 2 {
							late()
						}
						read := rw.Read().Acquire(all[by].Context(t.Context()))
						coordtest.Soon(t, read)
						if deep == 1 {
							late()
						}
						for _, i := range order {
							all[i].Release()
							<-all[i].Done()
						}
						coordtest.Soon(t, reader)
						reader.Release()
						time.Sleep(time.Second)
						if !read.Valid() || writer.Valid() {
							t.Errorf("the reader holds %v, the writer %v", read.Valid(), writer.Valid())
						}
						read.Release()
						coordtest.Soon(t, writer)
					})
				})
			}
		}
	}
}

// TestWhatAFunctionDoesInside: Do inside Do, three deep, through the panic of the innermost.
func TestWhatAFunctionDoesInside(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		mine := errors.New("mine")
		var tokens []int64
		do := func(innermost func(ctx context.Context) error) error {
			in := func(f func(context.Context) error) func(context.Context) error {
				return func(ctx context.Context) error {
					return lock.Do(ctx, func(ctx context.Context, g events.Grant) error {
						tokens = append(tokens, g.Token)
						return f(ctx)
					})
				}
			}
			return in(in(in(innermost)))(t.Context())
		}
		err := do(func(ctx context.Context) error {
			if a, ok := coordinator.FromContext(ctx); !ok || !a.Valid() || len(srv.Children(lockPath)) != 1 {
				t.Errorf("nodes %v", srv.Children(lockPath))
			}
			return mine
		})
		synctest.Wait()
		if !errors.Is(err, mine) || len(tokens) != 3 || len(slices.Compact(tokens)) != 1 || len(srv.Children(lockPath)) != 0 {
			t.Errorf("Do = %v, tokens %v, left %v", err, tokens, srv.Children(lockPath))
		}
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = do(func(context.Context) error { panic("boom") })
		}()
		synctest.Wait()
		if left := srv.Children(lockPath); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestAReleasedOwnersContext: it is cancelled, and with it the wait of an acquisition whose
// Grant was not taken yet. One whose was goes on, and is entered with a context of its own.
func TestAReleasedOwnersContext(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		outer, grant := coordtest.Hold(t, lock)
		ctx := outer.Context(t.Context())
		taken, untaken := lock.Acquire(ctx), lock.Acquire(ctx)
		coordtest.Soon(t, taken)
		outer.Release()
		<-untaken.Done()
		if !errors.Is(untaken.Err(), coordinator.ErrReleased) || !taken.Valid() {
			t.Errorf("the one: %v; the other holds %v", untaken.Err(), taken.Valid())
		}
		late := lock.Acquire(ctx)
		<-late.Done()
		if !errors.Is(late.Err(), coordinator.ErrReleased) {
			t.Errorf("behind that: %v", late.Err())
		}
		next := coordtest.Queue(other.Mutex(lockPath))
		inner := lock.Acquire(taken.Context(t.Context()))
		if again := coordtest.Soon(t, inner); again.Token != grant.Token {
			t.Errorf("%+v inside %+v", again, grant)
		}
		// The one is past, and the other is not: whichever of them the context names first, one that holds counts.
		chain := context.WithoutCancel(outer.Context(taken.Context(t.Context())))
		last := lock.Acquire(chain)
		coordtest.Soon(t, last)
		for _, a := range []*coordinator.Acquisition{taken, inner, last} {
			synctest.Wait()
			if next.Valid() {
				t.Fatal("two hold")
			}
			a.Release()
		}
		coordtest.Soon(t, next)
	})
}
