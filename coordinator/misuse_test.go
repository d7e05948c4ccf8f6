package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Where the servers' refusals are reported.

// undeletable grants permissions in a directory, but not to delete.
const undeletable = zk.PermRead | zk.PermCreate

var errOfFunction = errors.New("the function's own")

// TestARefusedReleaseIsToldByDo, together with the function's own error. Then the session
// ends before the node is gone.
func TestARefusedReleaseIsToldByDo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playRefusedDo(t, onTheDouble(t, srv)) })
}

// TestARefusedReleaseIsToldByTerms as the last pair, together with the cause if its
// context ends while the body is still running.
func TestARefusedReleaseIsToldByTerms(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playRefusedTerms(t, onTheDouble(t, srv)) })
}

// TestRealARefusedReleaseIsTold by Do and by Terms, on a real server.
func TestRealARefusedReleaseIsTold(t *testing.T) {
	t.Run("by Do", func(t *testing.T) { playRefusedDo(t, onARealServer(t)) })
	t.Run("by Terms", func(t *testing.T) { playRefusedTerms(t, onARealServer(t)) })
}

func playRefusedDo(t *testing.T, s *site) {
	t.Helper()
	makeDir(t, s, undeletable)
	for _, own := range []error{nil, errOfFunction} {
		c := s.connect()
		err := c.Mutex(lockPath).Do(coordtest.RealContext(t), func(context.Context, events.Grant) error { return own })
		expect(t, errors.Is(err, coordinator.ErrNoAuth) && (own == nil || errors.Is(err, own)),
			"Do of a function that returns %v, with a refused release: %v, want ErrNoAuth, and both", own, err)
		eventstest.Must(t, c.Close())
	}
}

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
		if way == "leaves" {
			expect(t, told == nil, "a body that %s is told %v, want nothing", way, told)
		} else {
			expect(t, len(told) == 1 && errors.Is(told[0], coordinator.ErrNoAuth) &&
				errors.Is(told[0], errOfFunction) == (way != "goes on"),
				"a body that %s is told %v, want ErrNoAuth, once, and the cause of a context that has ended", way, told)
		}
		eventstest.Must(t, c.Close())
	}
}

// TestDoWaitsForTheAnswerToItsRelease, but not after a loss.
func TestDoWaitsForTheAnswerToItsRelease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		strike(srv, zktest.Delay(time.Second), isA(zktest.OpDelete))
		start := time.Now()
		eventstest.Must(t, c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
		expectEqual(t, time.Since(start), time.Second, "until Do with a release that takes a second returns")
		expectNone(t, srv.Children(lockPath), "nodes when Do has returned")
		var revoked <-chan error
		err := c.Mutex(lockPath, coordinator.Revocable()).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
			revoked = revoking(t.Context(), coordtest.Connect(t, srv), grace)
			<-ctx.Done()
			start = time.Now()
			return nil
		})
		expectEqual(t, time.Since(start), 0, "until Do returns after a function that has lost the lock")
		expectError(t, err, coordinator.ErrRevoked, "Do of a function that has lost the lock")
		eventstest.Must(t, <-revoked)
	})
}

// TestAMultiLockNamesTheMemberThatWasRefused, whichever request was refused. The error
// wraps the server's error.
func TestAMultiLockNamesTheMemberThatWasRefused(t *testing.T) {
	forEach(t, refusals(), func(t *testing.T, srv *zktest.Server, r refusal) { r.play(t, onTheDouble(t, srv)) })
}

func TestRealAMultiLockNamesTheMemberThatWasRefused(t *testing.T) {
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) { r.play(t, onARealServer(t)) })
	}
}

// refusal is a way to be refused at the second path of a multi-lock.
type refusal struct {
	perms   int32                    // of every client in the second directory; 0: it is missing, and no client may create it
	options []coordinator.LockOption // the second member's options
	ahead   []coordinator.LockOption // if not nil, another client holds the second lock with these options
	held    bool                     // the release is refused
}

// refusals is not a variable, for the same reason as denials.
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
	if s.root != "" {
		// Acquire once before. A server without containers closes the connection at the
		// first request for one, and without a connection Done does not wait for the
		// servers.
		eventstest.Must(t, c.Mutex("/open/before").Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
	}
	a := c.Multi(c.Mutex(first), c.Mutex(second, r.options...)).Acquire(t.Context())
	if r.held {
		coordtest.GrantOf(t, a)
		a.Release()
	}
	err = coordtest.EndOf(t, a)
	var at *coordinator.MemberError
	expect(t, errors.As(err, &at) && at.Path == second && errors.Is(at.Err, coordinator.ErrNoAuth) &&
		strings.Contains(err.Error(), second),
		"the multi-lock ends with %v, want a MemberError of %s, which is ErrNoAuth; it is of %+v", err, second, at)
	got, _, err := s.raw.Children(s.root + first)
	expect(t, (err == nil || errors.Is(err, zk.ErrNoNode)) && len(got) == 0,
		"after the refusal %q, %v are left at the other path, want none", got, err)
	eventstest.Must(t, c.Close())
}
