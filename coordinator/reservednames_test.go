package coordinator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Names in a path, often a user's input, that mean something in another lock's directory.

// tell fails the test unless the error is the wanted one, names the component, and says
// what to do.
func tell(t *testing.T, what string, err, want error, component string) {
	t.Helper()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if !errors.Is(err, want) || !strings.Contains(text, `"`+component+`"`) || !strings.Contains(text, "PathEscape") {
		t.Errorf("%s: %v; want %v, with the component %q and PathEscape", what, err, want, component)
	}
}

// namedLikeAContender makes every call that makes nodes, where a component is a
// contender's name.
func namedLikeAContender(t *testing.T, s *site) {
	t.Helper()
	const name = "lock-0000000000"
	made(t, s, "/r/"+name+"/lock-0000000003+", "/r/empty", "/held")
	c := s.connect()
	before, _, err := s.raw.Children(s.root + "/r/" + name)
	eventstest.Must(t, err)
	held := c.Mutex("/held").Acquire(t.Context())
	coordtest.GrantOf(t, held)
	create := func(path string, flags int32) error {
		_, err := held.Txn(t.Context(), &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: flags})
		return err
	}
	for _, path := range []string{"/r/" + name, "/new/" + name + "/x"} {
		for what, l := range map[string]coordinator.Handle{
			"a mutex": c.Mutex(path), "a reader": c.ReadWrite(path).Read(), "a writer": c.ReadWrite(path).Write(), "an election": c.Election(path),
			"a semaphore": c.Semaphore(path, 2), "an unfair lock": c.Unfair(path), "a cached lock": c.Mutex(path, coordinator.Cached()),
			"a multi-lock": c.Multi(c.Mutex("/fine"), c.Mutex(path)),
		} {
			tell(t, what+" at "+path, coordtest.EndOf(t, l.Acquire(t.Context())), coordinator.ErrPath, name)
		}
		tell(t, "Resize at "+path, c.Semaphore(path, 2).Resize(t.Context(), 3), coordinator.ErrPath, name)
		tell(t, "Txn at "+path, create(path, 0), coordinator.ErrPath, name)
	}
	tell(t, "a numbered node", create("/r/x-lock-", zk.FlagSequence), coordinator.ErrPath, "x-lock-0000000001")

	queue, err := c.Mutex("/r/" + name).Queue(t.Context())
	expect(t, err == nil && len(queue) == len(before), "Queue = %v, %v; want the contender that stands there", queue, err)
	found := walked(t.Context(), c, "/r/"+name)
	expect(t, len(found) == 1, "Locks found %v, want the lock that stands there", found)
	_, err = c.Multi(c.Mutex("/r/"+name), c.Mutex("/held")).Queue(t.Context())
	expectError(t, err, nil, "Queue of a multi-lock")
	expectError(t, c.Revoke(t.Context(), "/r/empty/"+name, 0), coordinator.ErrNotHeld, "Revoke")
	there, _, err := s.raw.Children(s.root + "/r")
	expect(t, err == nil && len(there) == 2, "below /r there is %v, %v; want nothing new", there, err)
}

func TestNoCallMakesANodeAtAContendersName(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		namedLikeAContender(t, onTheDouble(t, srv))

		below := connectBelow(t, srv, "/r/lock-0000000000")
		tell(t, "below such a chroot", coordtest.EndOf(t, below.Mutex("/fine").Acquire(t.Context())), coordinator.ErrPath, "lock-0000000000")
		queue, err := below.Mutex("/").Queue(t.Context())
		expect(t, err == nil && len(queue) == 1, "Queue below such a chroot = %v, %v; want the contender that stands there", queue, err)

		c := connectBelow(t, srv, "")
		for _, path := range []string{"/r.holder", "/r.holder/x", "/.holder"} {
			component := strings.Split(path, "/")[1]
			tell(t, "a lock at "+path, coordtest.EndOf(t, c.Mutex(path).Acquire(t.Context())), coordinator.ErrPath, component)
		}
	})
}

// TestRealNamesOfContenders is the same on a real server, where a path escaped is one
// component.
func TestRealNamesOfContenders(t *testing.T) {
	s := onARealServer(t)
	namedLikeAContender(t, s)
	c := s.connect()
	for _, text := range awkward() {
		component := coordinator.PathEscape(text)
		for what, a := range map[string]*coordinator.Acquisition{
			"semaphore": c.Semaphore("/tenants/"+component, 1).Acquire(t.Context()), "crash": c.Mutex("/jobs/"+component, coordinator.DetectCrash()).Acquire(t.Context()),
		} {
			coordtest.GrantOf(t, a)
			expect(t, strings.HasPrefix(a.Grant().Node, map[string]string{"semaphore": "/tenants/", "crash": "/jobs/"}[what]+component+"/"),
				"%s of %q: granted as %s, want a node below %s", what, text, a.Grant().Node, component)
			coordtest.End(a)
		}
	}
	there, _, err := s.raw.Children(s.root + "/tenants")
	expect(t, err == nil && len(there) == len(awkward()), "%d texts have %d paths, %v; want one each", len(awkward()), len(there), err)
}

// besideASemaphore asks for locks at the parts of semaphores, in their process and in
// another one.
func besideASemaphore(t *testing.T, s *site) {
	t.Helper()
	c, other := s.connect(), s.connect()
	first := c.Semaphore("/sem", 1).Acquire(t.Context())
	coordtest.GrantOf(t, first)
	refused := func(l coordinator.Handle, component string) {
		t.Helper()
		err := coordtest.EndOf(t, l.Acquire(t.Context()))
		tell(t, component+" of a semaphore", err, coordinator.ErrKind, component)
		expect(t, !errors.Is(err, coordinator.ErrInvalid), "%v is ErrInvalid, want the servers' or another lock's word", err)
	}
	for _, part := range []string{"locks", "leases", "size"} {
		refused(c.Mutex("/sem/"+part), part)
		refused(c.Multi(c.Mutex("/fine"), c.Mutex("/sem/"+part)), part)
	}
	refused(other.Mutex("/sem/leases"), "leases")
	second := c.Semaphore("/sem", 1).Acquire(t.Context())
	eventstest.Eventually(t, "a waiter", func() bool { _, waits := second.Position(); return waits })
	refused(other.Mutex("/sem/locks"), "locks")
	coordtest.End(first)
	coordtest.GrantOf(t, second)

	lock := c.Mutex("/q/locks").Acquire(t.Context())
	coordtest.GrantOf(t, lock)
	refused(c.Semaphore("/q", 1), "locks")
	err := c.Semaphore("/q", 1).Resize(t.Context(), 2)
	tell(t, "Resize", err, coordinator.ErrKind, "locks")
	coordtest.End(lock)
	coordtest.GrantOf(t, c.Semaphore("/q", 1).Acquire(t.Context()))
}

func TestALockIsNoPartOfASemaphore(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { besideASemaphore(t, onTheDouble(t, srv)) })
}

// TestRealPartsOfASemaphore is the same on a real server.
func TestRealPartsOfASemaphore(t *testing.T) { besideASemaphore(t, onARealServer(t)) }
