package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const recordPath = lockPath + session.RecordSuffix

// detecting is the lock that most of these tests fight for.
func detecting(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	return c.Mutex(lockPath, append(options, coordinator.DetectCrash())...)
}

// finish releases and waits for the end.
func finish(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	<-a.Done()
	if err := a.Err(); err != nil {
		t.Errorf("released: %v", err)
	}
}

// leftInOrder holds that a lock can be had, that nobody has crashed, and that nothing is left of it.
func leftInOrder(t *testing.T, srv *zktest.Server, l *coordinator.Lock) {
	t.Helper()
	a := l.Acquire(context.Background())
	if g := coordtest.Soon(t, a); g.Abandoned != nil {
		t.Errorf("a crash is told of that was none: %+v", g.Abandoned)
	}
	finish(t, a)
	synctest.Wait()
	if srv.Exists(recordPath) || len(srv.Children(lockPath)) > 0 {
		t.Errorf("left: %v", srv.Tree())
	}
}

// TestARecordStandsWhileTheLockIsHeld: beside the directory, and goes with the node of one who releases.
func TestARecordStandsWhileTheLockIsHeld(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := detecting(coordtest.Connect(t, srv))
		for range 3 {
			a, grant := coordtest.Hold(t, l, coordinator.WithData([]byte("who\n\nI am")))
			data, _ := srv.Data(recordPath)
			want := fmt.Sprintf("zkgrant holder\nnode %s\ntoken 0x%x\nsince %s\n\nwho\n\nI am",
				path.Base(grant.Node), grant.Token, time.Now().UTC().Format(time.RFC3339Nano))
			if string(data) != want || grant.Abandoned != nil {
				t.Errorf("the record is %q, want %q; %v", data, want, grant.Abandoned)
			}
			if got := srv.Children(lockPath); len(got) != 1 {
				t.Errorf("in the directory: %v", got)
			}
			finish(t, a)
			if srv.Exists(recordPath) {
				t.Error("the record is there behind the release")
			}
			time.Sleep(time.Second)
		}
	})
}

// expire ends the coordinator's session at the server.
func expire(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
	t.Helper()
	if err := srv.Expire(c.SessionID()); err != nil {
		t.Error(err)
	}
}

// TestACrashIsTold has a holder end in each way that is no release. The next one is told, also when it waits already,
// and so is whoever comes then, until one of them has released.
func TestACrashIsTold(t *testing.T) {
	held := func(do func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator, a *coordinator.Acquisition)) func(
		*testing.T, *zktest.Server, *coordinator.Coordinator) events.Grant {
		return func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) events.Grant {
			a, grant := coordtest.Hold(t, detecting(c), coordinator.WithData([]byte("first")))
			do(t, srv, c, a)
			return grant
		}
	}
	do := func(body func(c *coordinator.Coordinator)) func(*testing.T, *zktest.Server, *coordinator.Coordinator) events.Grant {
		return func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) (grant events.Grant) {
			var wait sync.WaitGroup
			wait.Go(func() {
				defer func() { _ = recover() }()
				_ = detecting(c).Do(t.Context(), func(_ context.Context, g events.Grant) error {
					grant = g
					body(c)
					return nil
				}, coordinator.WithData([]byte("first")))
			})
			wait.Wait()
			return grant
		}
	}
	for name, crash := range map[string]func(*testing.T, *zktest.Server, *coordinator.Coordinator) events.Grant{
		"session expired": held(func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator, a *coordinator.Acquisition) {
			expire(t, srv, c)
			<-a.Lost()
			a.Release()
		}),
		"lease ran out": held(func(_ *testing.T, srv *zktest.Server, c *coordinator.Coordinator, a *coordinator.Acquisition) {
			srv.Mute(c.SessionID(), true)
			<-a.Lost()
			a.Release()
		}),
		"node removed": held(func(t *testing.T, srv *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			if err := srv.Delete(a.Grant().Node); err != nil {
				t.Error(err)
			}
			<-a.Lost()
		}),
		"released when it was lost": held(func(t *testing.T, srv *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			if err := srv.Delete(a.Grant().Node); err != nil {
				t.Error(err)
			}
			a.Release()
			<-a.Done()
		}),
		"closed": held(func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator, _ *coordinator.Acquisition) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}),
		"panic":  do(func(*coordinator.Coordinator) { panic("boom") }),
		"goexit": do(func(*coordinator.Coordinator) { runtime.Goexit() }),
		"closed in a function": do(func(c *coordinator.Coordinator) {
			go func() { _ = c.Close() }()
			time.Sleep(time.Second) // which Close waits for
		}),
		"term": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) (grant events.Grant) {
			defer func() { _ = recover() }()
			for term, err := range c.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context(), coordinator.WithData([]byte("first"))) {
				if err != nil {
					t.Error(err)
				}
				grant = term.Grant()
				panic("boom")
			}
			return grant
		},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waiting %v", name, waits), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					began := time.Now()
					time.Sleep(time.Second)
					var next *coordinator.Acquisition
					if waits {
						first, _ := coordtest.Hold(t, detecting(b)) // so that the one to crash is ahead of the next
						defer first.Release()
						go func() {
							time.Sleep(time.Second)
							next = detecting(b).Acquire(context.Background())
							time.Sleep(time.Second)
							first.Release()
						}()
					}
					grant := crash(t, srv, a)
					if next == nil {
						next = detecting(b).Acquire(context.Background())
					}
					got, err := next.Wait(t.Context())
					if err != nil || got.Abandoned == nil {
						t.Fatalf("not told: %+v, %v", got, err)
					}
					if since := got.Abandoned.Since; since.Before(began) || !since.Before(time.Now().Add(time.Nanosecond)) {
						t.Errorf("since %v", since)
					}
					if want := (events.Abandoned{Node: grant.Node, Data: []byte("first"), Token: grant.Token, Since: got.Abandoned.Since}); grant.Node != "" && !reflect.DeepEqual(*got.Abandoned, want) {
						t.Errorf("told %+v, want %+v", *got.Abandoned, want)
					}
					if !reflect.DeepEqual(next.Grant(), got) {
						t.Errorf("Grant says %+v, and %+v was delivered", next.Grant(), got)
					}

					// It crashes as well, and the first counts.
					waiter := coordtest.Queue(detecting(b))
					if err := srv.Delete(got.Node); err != nil {
						t.Fatal(err)
					}
					if again := coordtest.Soon(t, waiter); !reflect.DeepEqual(again.Abandoned, got.Abandoned) {
						t.Errorf("told %+v, and then %+v", got.Abandoned, again.Abandoned)
					}
					finish(t, waiter)
					leftInOrder(t, srv, detecting(b))
				})
			})
		}
	}
}

// TestAReleaseIsNoCrash: whatever a function returns, whoever leaves a term, and whoever waits behind.
func TestAReleaseIsNoCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		fault := errors.New("as intended")
		if err := detecting(a).Do(t.Context(), func(context.Context, events.Grant) error { return fault }); !errors.Is(err, fault) {
			t.Error(err)
		}
		leftInOrder(t, srv, detecting(b))
		for _, err := range a.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		leftInOrder(t, srv, detecting(b))
		var all []*coordinator.Acquisition
		for i := range 10 { // handed over by claims, by floors, within a session and beyond
			all = append(all, coordtest.Queue(detecting([]*coordinator.Coordinator{a, b}[i/2%2])))
		}
		for i, acq := range all {
			if g := coordtest.Soon(t, acq); g.Abandoned != nil {
				t.Errorf("the %dth is told of %+v", i, g.Abandoned)
			}
			finish(t, acq)
		}
		leftInOrder(t, srv, detecting(a))
	})
}

// TestAGrantThatNobodyTookIsNoCrash: nobody has done anything. If somebody else has crashed, the next one is told of that.
func TestAGrantThatNobodyTookIsNoCrash(t *testing.T) {
	for name, end := range map[string]func(*coordinator.Acquisition, context.CancelFunc){
		"released": func(a *coordinator.Acquisition, _ context.CancelFunc) { a.Release() },
		"context":  func(_ *coordinator.Acquisition, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				untaken := func() {
					ctx, cancel := context.WithCancel(t.Context())
					acq := detecting(a).Acquire(ctx)
					synctest.Wait()
					if !srv.Exists(recordPath) || !acq.Valid() {
						t.Error("it is not held")
					}
					end(acq, cancel)
					<-acq.Done()
					cancel()
				}
				untaken()
				leftInOrder(t, srv, detecting(b))

				_, grant := coordtest.Hold(t, detecting(a))
				expire(t, srv, a)
				time.Sleep(time.Second)
				untaken()
				last, got := coordtest.Hold(t, detecting(b))
				if got.Abandoned == nil || got.Abandoned.Node != grant.Node {
					t.Errorf("told %+v, want that of %s", got.Abandoned, grant.Node)
				}
				finish(t, last)
				leftInOrder(t, srv, detecting(b))
			})
		})
	}
	t.Run("closed", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			detecting(a).Acquire(t.Context())
			synctest.Wait()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			leftInOrder(t, srv, detecting(b))
		})
	})
	t.Run("taken on the stream", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			stream := a.Events(t.Context())
			acq := detecting(a).Acquire(t.Context())
			for ev := range stream {
				if _, ok := ev.(events.Grant); ok {
					break
				}
			}
			expire(t, srv, a)
			<-acq.Done()
			if _, g := coordtest.Hold(t, detecting(b)); g.Abandoned == nil {
				t.Error("not told")
			}
		})
	})
}
