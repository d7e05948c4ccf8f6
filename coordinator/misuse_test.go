package coordinator_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Mistakes of callers harm no other caller.

// Releases one after the other are in testdata/scenes/acquire/release.txt.
func TestReleasesAtOnceAreHarmless(t *testing.T) {
	for name, want := range map[string]error{"held": nil, "waiting": coordinator.ErrNotAcquired} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				a, _ := coordtest.Hold(t, c.Mutex(lockPath))
				if want != nil {
					holder := a
					a = coordtest.Queue(c.Mutex(lockPath))
					go holder.Release() // a Grant may be on its way
				}
				var all sync.WaitGroup
				gate := make(chan struct{})
				for range 100 {
					all.Go(func() {
						<-gate
						a.Release()
						if a.Valid() {
							t.Error("valid after Release, want not")
						}
					})
				}
				close(gate)
				all.Wait()
				if err := coordtest.EndOf(t, a); !errors.Is(err, want) || len(a.Granted()) != 0 {
					t.Errorf("after 100 releases: %v, with %d Grants to be taken; want %v, and none", err, len(a.Granted()), want)
				}
				time.Sleep(time.Second)
				if got := srv.Children(lockPath); len(got) != 0 {
					t.Errorf("after the releases the nodes %v are left, want none", got)
				}
			})
		})
	}
}

func TestWhateverHappensInsideDoTheNextOneIsGranted(t *testing.T) {
	for name, tt := range map[string]struct {
		inside func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator)
		want   error
		closed bool
	}{
		"panic with an error": {
			inside: func(*testing.T, *zktest.Server, *coordinator.Coordinator) { panic(io.ErrUnexpectedEOF) },
		},
		"Close": {
			inside: func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
				start := time.Now()
				err := c.Close()
				if err == nil || !strings.Contains(err.Error(), "functions under a lock still run: 1") || time.Since(start) != 5*time.Second { // it waits for itself, and not for ever
					t.Errorf("Close = %v after %v, want to be told of this function after 5 s", err, time.Since(start))
				}
			},
			closed: true,
		},
		"Do on the same lock": {
			inside: func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := c.Mutex(lockPath).Do(ctx, func(context.Context, events.Grant) error { return nil })
				if !errors.Is(err, context.DeadlineExceeded) { // without the context it cannot be known
					t.Errorf("Do inside Do = %v, want the end of its context", err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				started := make(chan struct{})
				over := make(chan struct{})
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
						close(started)
						synctest.Wait() // until the other waits
						tt.inside(t, srv, c)
						if tt.closed && !errors.Is(context.Cause(ctx), coordinator.ErrClosed) {
							t.Errorf("after Close the function's context ends with %v, want ErrClosed", context.Cause(ctx))
						}
						return tt.want
					})
					want := tt.want
					if tt.closed {
						want = coordinator.ErrClosed
					}
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, want %v", err, want)
					}
				}()
				<-started
				next := other.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Hour))
				<-over
				start := time.Now()
				if _, err := next.Wait(t.Context()); err != nil || time.Since(start) > time.Second {
					t.Errorf("the next one: %v after %v, want a grant within a second", err, time.Since(start))
				}
				synctest.Wait() // Do does not wait for its node to go
				if got := srv.Children(lockPath); len(got) != 1 {
					t.Errorf("after Do the nodes are %v, want that of the next one", got)
				}
				if !tt.closed { // after the panic the program can go on
					next.Release()
					coordtest.Hold(t, c.Mutex(lockPath))
				}
			})
		})
	}
}

// Where refusals of the servers are reported.

// undeletable are the permissions in a directory where no client may delete.
const undeletable = zk.PermRead | zk.PermCreate

var errOfFunction = errors.New("the function's own")

// TestARefusedReleaseIsToldByDo beside the function's own error. Then the session ends before the node is gone.
func TestARefusedReleaseIsToldByDo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playRefusedDo(t, onTheDouble(t, srv)) })
}

// TestRealARefusedReleaseIsToldByDo is the same on a real server.
func TestRealARefusedReleaseIsToldByDo(t *testing.T) { playRefusedDo(t, onARealServer(t)) }

func playRefusedDo(t *testing.T, s *site) {
	t.Helper()
	makeDir(t, s, undeletable)
	for _, own := range []error{nil, errOfFunction} {
		c := s.connect()
		err := c.Mutex(lockPath).Do(coordtest.RealContext(t), func(context.Context, events.Grant) error { return own })
		if !errors.Is(err, coordinator.ErrNoAuth) || own != nil && !errors.Is(err, own) {
			t.Errorf("Do of a function that returns %v, with a refused release: %v, want ErrNoAuth, and both", own, err)
		}
		eventstest.Must(t, c.Close())
	}
}

// TestARefusedReleaseIsToldByTerms as the last pair, with the cause of a context that has ended, if the body goes on.
func TestARefusedReleaseIsToldByTerms(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playRefusedTerms(t, onTheDouble(t, srv)) })
}

// TestRealARefusedReleaseIsToldByTerms is the same on a real server.
func TestRealARefusedReleaseIsToldByTerms(t *testing.T) { playRefusedTerms(t, onARealServer(t)) }

func playRefusedTerms(t *testing.T, s *site) {
	t.Helper()
	makeDir(t, s, undeletable)
	for _, way := range []string{"goes on", "goes on after the end of its context", "leaves"} {
		c := s.connect()
		ctx, cancel := context.WithCancelCause(coordtest.RealContext(t))
		var told []error
		for term, err := range c.Election(lockPath).Terms(ctx) {
			if term == nil {
				told = append(told, err)
				continue
			}
			if way != "goes on" {
				cancel(errOfFunction)
			}
			if way == "leaves" {
				break
			}
		}
		cancel(nil)
		switch {
		case way == "leaves":
			if told != nil {
				t.Errorf("a body that %s is told %v, want nothing", way, told)
			}
		case len(told) != 1 || !errors.Is(told[0], coordinator.ErrNoAuth) || errors.Is(told[0], errOfFunction) == (way == "goes on"):
			t.Errorf("a body that %s is told %v, want ErrNoAuth, once, and the cause of its context if that has ended", way, told)
		}
		eventstest.Must(t, c.Close())
	}
}

// TestDoWaitsForTheAnswerToItsRelease, but not after a loss, nor for a server that cannot be reached.
func TestDoWaitsForTheAnswerToItsRelease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpDelete {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		start := time.Now()
		eventstest.Must(t, c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
		if took := time.Since(start); took != time.Second || len(srv.Children(lockPath)) != 0 {
			t.Errorf("Do with a release that takes a second returns after %v, with the nodes %v; want after the release", took, srv.Children(lockPath))
		}
		var revoked <-chan error
		err := c.Mutex(lockPath, coordinator.Revocable()).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
			revoked = revoking(t.Context(), coordtest.Connect(t, srv), grace)
			<-ctx.Done()
			start = time.Now()
			return nil
		})
		if took := time.Since(start); took != 0 || !errors.Is(err, coordinator.ErrRevoked) {
			t.Errorf("Do returns %v %v after a function that has lost the lock, want ErrRevoked at once", err, took)
		}
		eventstest.Must(t, <-revoked)
		err = c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error {
			srv.Mute(c.SessionID(), true)
			start = time.Now()
			return nil
		})
		if took := time.Since(start); took > timeoutOfAll || err != nil {
			t.Errorf("Do of a server that is silent returns %v after %v, want nil within the session timeout", err, took)
		}
	})
}

// TestAMultiLockNamesTheMemberThatWasRefused, whatever was asked of it. The error also is what the server said.
func TestAMultiLockNamesTheMemberThatWasRefused(t *testing.T) {
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { r.play(t, onTheDouble(t, srv)) })
		})
	}
}

// TestRealAMultiLockNamesTheMemberThatWasRefused is the same on a real server.
func TestRealAMultiLockNamesTheMemberThatWasRefused(t *testing.T) {
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) { r.play(t, onARealServer(t)) })
	}
}

// refusal is a way to be refused at the second path of a multi-lock.
type refusal struct {
	perms   int32                    // of every client in the second directory; 0: there is none, and no client may make it
	options []coordinator.LockOption // of the second member
	ahead   []coordinator.LockOption // of another client's holder of the second lock, if not nil
	held    bool                     // it is the release that is refused
}

func refusals() map[string]refusal {
	return map[string]refusal{
		"create":              {perms: zk.PermAll &^ zk.PermCreate},
		"make the directory":  {},
		"read the queue":      {perms: zk.PermAll &^ zk.PermRead},
		"read the own node":   {perms: zk.PermAll, options: []coordinator.LockOption{somebodyElse()}},
		"read the node ahead": {perms: zk.PermAll, ahead: []coordinator.LockOption{somebodyElse()}},
		"delete":              {perms: undeletable, held: true},
	}
}

func (r refusal) play(t *testing.T, s *site) {
	t.Helper()
	const closed = "/closed"
	first, second := "/open/first", closed+"/second"
	if s.root != "" {
		makeNodes(t, s.raw, [2]string{s.root})
	}
	parent := int32(zk.PermAll)
	if r.perms == 0 {
		parent &^= zk.PermCreate
	}
	_, err := s.raw.Create(s.root+closed, nil, zk.FlagPersistent, zk.WorldACL(parent))
	eventstest.Must(t, err)
	if r.perms != 0 {
		_, err := s.raw.Create(s.root+second, nil, zk.FlagPersistent, zk.WorldACL(r.perms))
		eventstest.Must(t, err)
	}
	if r.ahead != nil {
		coordtest.Hold(t, s.connect(coordinator.WithAuth("digest", []byte("somebody:else"))).Mutex(second, r.ahead...))
	}
	c := s.connect()
	a := c.Multi(c.Mutex(first), c.Mutex(second, r.options...)).Acquire(t.Context())
	if r.held {
		coordtest.GrantOf(t, a)
		a.Release()
	}
	err = coordtest.EndOf(t, a)
	var at *coordinator.MemberError
	if !errors.As(err, &at) || at.Path != second || !errors.Is(at.Err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), second) {
		t.Errorf("the multi-lock ends with %v, want a MemberError of %s, which is ErrNoAuth; it is of %+v", err, second, at)
	}
	if got, _, err := s.raw.Children(s.root + first); err != nil && !errors.Is(err, zk.ErrNoNode) || len(got) != 0 {
		t.Errorf("after the refusal %q, %v are left at the other path, want none", got, err)
	}
	eventstest.Must(t, c.Close())
}
