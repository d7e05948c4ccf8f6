package coordinator_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Path components, often from a user's input, that have a meaning in another lock's
// directory.

// tell fails the test unless the error is the wanted one, names the component, and
// suggests a remedy.
func tell(t *testing.T, what string, err, want error, component string) {
	t.Helper()
	text := fmt.Sprint(err)
	expectError(t, err, want, what)
	expect(t, strings.Contains(text, `"`+component+`"`) && strings.Contains(text, "PathEscape"),
		"%s: %v; want the component %q and PathEscape", what, err, component)
}

// namedLikeAContender makes every call that creates nodes, with a path component that is
// a contender's name.
func namedLikeAContender(t *testing.T, s *site) {
	t.Helper()
	const name = "lock-0000000000"
	made(t, s, "/r/"+name+"/lock-0000000003+", "/r/empty", "/held")
	c := s.connect()
	before, _, err := s.raw.Children(s.root + "/r/" + name)
	eventstest.Must(t, err)
	held, _ := coordtest.HoldReal(t, c.Mutex("/held"))
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

// TestRealNamesOfContenders does the same on a real server. There, an escaped path is one
// component.
func TestRealNamesOfContenders(t *testing.T) {
	s := onARealServer(t)
	namedLikeAContender(t, s)
	c := s.connect()
	for _, text := range awkward {
		tenant, job := "/tenants/"+coordinator.PathEscape(text), "/jobs/"+coordinator.PathEscape(text)
		for path, l := range map[string]coordinator.Handle{
			tenant: c.Semaphore(tenant, 1), job: c.Mutex(job, coordinator.DetectCrash()),
		} {
			a, grant := coordtest.HoldReal(t, l)
			expect(t, strings.HasPrefix(grant.Node, path+"/"), "%q: granted %s, want below %s", text, grant.Node, path)
			coordtest.End(a)
		}
	}
	there, _, err := s.raw.Children(s.root + "/tenants")
	expect(t, err == nil && len(there) == len(awkward), "%d texts have %d paths, %v; want one each", len(awkward), len(there), err)
}

// besideASemaphore acquires locks at the parts of semaphores, in the semaphores' process
// and in another one.
func besideASemaphore(t *testing.T, s *site) {
	t.Helper()
	c, other := s.connect(), s.connect()
	first, _ := coordtest.HoldReal(t, c.Semaphore("/sem", 1))
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

	lock, _ := coordtest.HoldReal(t, c.Mutex("/q/locks"))
	refused(c.Semaphore("/q", 1), "locks")
	tell(t, "Resize", c.Semaphore("/q", 1).Resize(t.Context(), 2), coordinator.ErrKind, "locks")
	coordtest.End(lock)
	coordtest.GrantOf(t, c.Semaphore("/q", 1).Acquire(t.Context()))
}

func TestALockIsNoPartOfASemaphore(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { besideASemaphore(t, onTheDouble(t, srv)) })
}

// TestNoNodeStaysInASemaphore: the reply to the create of a lock is lost, and the look for
// its node shows that it stands among a semaphore's waiters.
func TestNoNodeStaysInASemaphore(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		sem := c.Semaphore("/sem", 1)
		for name, lock := range map[string]coordinator.Handle{
			"mutex": other.Mutex("/sem/locks"), "multi": other.Multi(other.Mutex("/fine"), other.Mutex("/sem/locks")),
		} {
			holdAgainAndAgain(t, other.Mutex("/fine"), 1) // so that its directory exists
			first, _ := coordtest.Hold(t, sem)
			second := coordtest.Queue(sem)
			lost := once(srv, zktest.CutAfter(), of(other.SessionID(), zktest.OpMulti, zktest.OpCreate))
			err := coordtest.EndOf(t, lock.Acquire(t.Context()))
			expect(t, errors.Is(err, coordinator.ErrKind) && lost.Load(),
				"%s: %v, and a reply was lost: %v; want ErrKind, and one lost", name, err, lost.Load())
			synctest.Wait()
			left, waiters := srv.Children("/fine"), srv.Children("/sem/locks")
			expect(t, len(left) == 0 && len(waiters) == 1, "%s: left at /fine: %q, in the queue of the semaphore: %q; want the waiter", name, left, waiters)
			coordtest.End(first)
			coordtest.Soon(t, second)
			coordtest.End(second)
			holdAgainAndAgain(t, sem, 1)
		}
	})
}

func TestRealPartsOfASemaphore(t *testing.T) { besideASemaphore(t, onARealServer(t)) }

// awkward has texts that have a meaning in a directory, or cannot be a component as they
// are.
var awkward = []string{
	"", ".", "..", "/", "a/b", "a%2Fb", "%", "%~", "%2E", "\x00", "\xff\xfe", "ü🔒", "plain-1.example", " \n",
	"locks", "leases", "size", "zookeeper", ".holder", "r.holder", "lock-0000000000", "r/lock-0000000000", "x-1-0000000001",
	"lock--2147483648", "lock--000000005", "__READ__0000000001", "_c_4f1c0a52-lease-0000000000", "latch-0000000007", "1234567890", "thread-1234567890",
	strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("ü", 34), strings.Repeat("ü", 100), strings.Repeat("ü", 101), strings.Repeat("9", 300),
	strings.Repeat("a", 199) + "/", strings.Repeat("a", 190) + "0000000000",
}

// numbered matches names as servers number them, which may be contenders of an unknown
// library.
var numbered = regexp.MustCompile(`[-0-9][0-9]{9}$`)

// wantComponent fails the test unless the component of the text keeps every promise of
// PathEscape.
func wantComponent(t *testing.T, text string) (component string) {
	t.Helper()
	c := coordinator.PathEscape(text)
	_, contends := events.ParseName(c)
	strange := strings.ContainsFunc(c, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == ',' })
	reserved := slices.Contains([]string{"", ".", "..", "locks", "leases", "size", "zookeeper"}, c) ||
		strings.HasSuffix(c, ".holder")
	expect(t, !strange && !reserved && !contends && !numbered.MatchString(c) && len(c) <= 200,
		"%q becomes %q of %d bytes, want a component of at most 200 bytes that means nothing", text, c, len(c))
	back, err := coordinator.PathUnescape(c)
	if long := strings.Contains(c, "%~"); long != errors.Is(err, coordinator.ErrPath) || !long && (back != text || err != nil) {
		t.Errorf("%q becomes %q and then %q, %v; want the text, or ErrPath of a hash", text, c, back, err)
	}
	return c
}

// TestPathEscapeMakesOneComponentOfAnyText, the same one in every version.
func TestPathEscapeMakesOneComponentOfAnyText(t *testing.T) {
	texts := map[string]string{}
	for _, text := range awkward {
		c := wantComponent(t, text)
		other, twice := texts[c]
		expect(t, !twice, "%q and %q both become %q", other, text, c)
		texts[c] = text
	}
	for text, want := range map[string]string{
		"": "%", "a b/c": "a%20b%2Fc", "orders-2026": "orders-2026", "..": ".%2E", "locks": "lock%73", "r.holder": "r.holde%72",
		"lock-0000000000": "lock-000000000%30", "12345678": "12345678", ".": "%2E", "...": "...",
		"plain-1.example": "plain-1.example", "*.example": "%2A.example", "acme%2Fv02": "acme%252Fv02",
		"acme/v02/a@b.json": "acme%2Fv02%2Fa@b.json", "\x00\x7f": "%00%7F", " \n": "%20%0A",
		"🔒": "%F0%9F%94%92", "\xff\xfe": "%FF%FE",
		strings.Repeat("a", 200): strings.Repeat("a", 200),
	} {
		expectEqual(t, coordinator.PathEscape(text), want, "PathEscape(%q)", text)
	}
	for _, c := range []string{"", "a/b", "ü", "%zz", "%61", "locks", "lock-0000000000", "%2e", strings.Repeat("a", 201)} {
		_, err := coordinator.PathUnescape(c)
		expectError(t, err, coordinator.ErrPath, fmt.Sprintf("PathUnescape(%.20q)", c))
	}
}

// FuzzPathEscape: every text has its own component, which no library takes for a
// contender.
func FuzzPathEscape(f *testing.F) {
	for _, text := range awkward {
		f.Add(text, text+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ca, cb := wantComponent(t, a), wantComponent(t, b)
		expect(t, (ca == cb) == (a == b), "%q and %q become %q and %q", a, b, ca, cb)
	})
}
