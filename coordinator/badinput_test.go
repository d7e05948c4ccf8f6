package coordinator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A wrong argument is reported at once, by name, and no request is sent.

func TestBadLockPathsEndInErrPathAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		unmakable := []string{"/r/lock-0000000000", "/a-lock-0000000007/x", "/r.holder"} // no lock can be made there, but Queue works
		for _, path := range append([]string{
			"", "a", "a/b", " /a", "//", "/a/", "/a//b", "/a/../b", "/..", "/./a", "/a\x00", "/\x00", "/a\x1f", "/a\xff",
			"/\U0001F512", "/zookeeper", "/zookeeper/x", "/zookeeper/quota/locks",
			"/" + strings.Repeat("a", 1<<20), strings.Repeat("/a", 1<<19), strings.Repeat("x", 1<<20),
		}, unmakable...) {
			lock := c.Mutex(path)
			a := lock.Acquire(t.Context())
			expect(t, coordtest.IsClosed(a.Done()), "%.20q: not over when Acquire returned, want it over", path)
			_, try := lock.Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
			do := lock.Do(t.Context(), func(context.Context, events.Grant) error { return nil })
			errs := map[string]error{"Acquire": a.Err(), "Try": try, "Do": do}
			if !slices.Contains(unmakable, path) {
				_, errs["Queue"] = lock.Queue(t.Context())
				expect(t, fmt.Sprint(errs["Queue"]) == fmt.Sprint(a.Err()),
					"%.20q: Queue says %.99v, Acquire %.99v; want the same", path, errs["Queue"], a.Err())
			}
			for name, err := range errs {
				expectError(t, err, coordinator.ErrPath, fmt.Sprintf("%s of %.20q", name, path))
				n := len(fmt.Sprint(err))
				expect(t, n <= 200, "%s of %.20q: the error has %d bytes, want at most 200", name, path, n)
				if len(path) >= 1<<20 {
					expectError(t, err, coordinator.ErrTooLarge, name+" of a path that is too long")
				}
			}
		}
		synctest.Wait()
		expect(t, sent.Load() == 0, "%d requests were sent for bad paths, want none", sent.Load())

		// Only the servers' own tree is refused, not a path of the application's.
		coordtest.Hold(t, connectBelow(t, srv, "/app").Mutex("/zookeeper/x"))
		expect(t, len(srv.Children("/app/zookeeper/x")) == 1, "for a lock below /app there is %v", srv.Tree())
		coordtest.Hold(t, connectBelow(t, srv, "").Mutex("/zookeepers"))
		for _, path := range []string{"/x", "/"} {
			a := connectBelow(t, srv, "/zookeeper").Mutex(path).Acquire(t.Context())
			expectError(t, coordtest.EndOf(t, a), coordinator.ErrPath, path+" below /zookeeper")
		}
	})
}

// Input that is too large is refused by the library. A server would hang up, which looks
// like an outage.
func TestWhatIsTooLargeIsRefusedAndNothingElse(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := onTheDouble(t, srv)
		c := s.connect()
		sent := coordtest.Traffic(srv)
		entry := zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: strings.Repeat("x", 100) + ":y"}
		hugeACL := coordinator.ACL(slices.Repeat([]zk.ACL{entry}, 10_000))
		for name, a := range map[string]*coordinator.Acquisition{
			"data": c.Mutex(lockPath).Acquire(t.Context(), coordinator.Data(make([]byte, sizeLimit))),
			"acl":  c.Mutex(lockPath, hugeACL).Acquire(t.Context()),
		} {
			expect(t, coordtest.IsClosed(a.Done()), "too much %s: not over at once", name)
			expectError(t, a.Err(), coordinator.ErrTooLarge, "too much "+name)
			expect(t, !errors.Is(a.Err(), coordinator.ErrPath), "too much %s: %v, want no ErrPath", name, a.Err())
		}
		synctest.Wait()
		expect(t, sent.Load() == 0, "%d requests for what is too large, want none", sent.Load())
		theLargest(t, s)
		expectEqual(t, srv.Requests(zktest.OpConnect), 3, "handshakes of three clients, more if the server hung up")
	})
}

// sizeLimit bounds the path, the data and the access control list together.
const sizeLimit = 0xfffff - 1<<10

// theLargest holds locks with the most data and the longest path that are accepted.
func theLargest(t *testing.T, s *site) {
	t.Helper()
	world := zk.WorldACL(zk.PermAll)[0]
	fits := sizeLimit - len(s.root+lockPath) - 12 - len(world.Scheme) - len(world.ID)
	c := s.connect(coordinator.WithNodeBudget(2 * sizeLimit)) // for one node at the longest path
	id := c.SessionID()
	a, grant := coordtest.Hold(t, c.Mutex(lockPath), coordinator.Data(make([]byte, fits)))
	data, _, err := s.raw.Get(s.root + grant.Node)
	expect(t, len(data) == fits, "the node has %d bytes, %v; want %d", len(data), err, fits)
	coordtest.End(a)
	long := "/" + strings.Repeat("a", fits-1+len(lockPath))
	b, grant := coordtest.Hold(t, c.Mutex(long))
	expect(t, strings.HasPrefix(grant.Node, long), "the longest path is granted as %d bytes", len(grant.Node))
	coordtest.End(b)
	expectError(t, errors.Join(a.Err(), b.Err()), nil, "the largest ended")
	expect(t, c.SessionID() == id && c.State() == coordinator.StateConnected, "the session is %v", c.State())
}

// If access control denies a request, the acquisition ends at once. Nothing is retried,
// and every node that may be removed is removed.

// A site is a part of a server's tree, on the double or on a real server.
type site struct {
	connect func(options ...coordinator.Option) *coordinator.Coordinator // below the root
	raw     *zk.Conn                                                     // a plain client that sees the whole tree
	root    string
}

// onTheDouble returns a site for the double's whole tree.
func onTheDouble(t *testing.T, srv *zktest.Server) *site {
	t.Helper()
	return &site{func(options ...coordinator.Option) *coordinator.Coordinator {
		return coordtest.Connect(t, srv, options...)
	}, coordtest.Admin(t, srv.Addr(), srv.DialContext), ""}
}

// onARealServer returns a site in the tree of the real server that the tests share.
func onARealServer(t *testing.T) *site {
	t.Helper()
	eventstest.NeedsServers(t)
	addr, root := coordtest.Servers(t, 1).Addr(0), "/"+strings.NewReplacer("/", "-", " ", "_").Replace(t.Name())
	return &site{func(options ...coordinator.Option) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, addr+root, options...)
	}, coordtest.RawClient(t, addr), root}
}

// makeDir makes the directory of lockPath, below a parent that is open to every client.
// In the directory, every client has exactly these permissions. The raw client may also
// read it: since 3.8.4, servers hide a node's existence from other clients.
func makeDir(t *testing.T, s *site, perms int32) {
	t.Helper()
	if s.root != "" {
		makeNodes(t, s.raw, [2]string{s.root})
	}
	makeNodes(t, s.raw, [2]string{s.root + path.Dir(lockPath)})
	eventstest.Must(t, s.raw.AddAuth("digest", []byte(reader+":"+reader)))
	_, err := s.raw.Create(s.root+lockPath, nil, zk.FlagPersistent, andReader(perms))
	eventstest.Must(t, err)
}

// makeNodes makes persistent nodes with data, open to every client.
func makeNodes(t *testing.T, conn *zk.Conn, nodes ...[2]string) {
	t.Helper()
	for _, node := range nodes {
		_, err := conn.Create(node[0], []byte(node[1]), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("create %s: %v", node[0], err)
		}
	}
}

// reader is both the name and the password of the raw client.
const reader = "reader"

// andReader returns an ACL with these permissions for every client, and READ for the raw
// client.
func andReader(perms int32) []zk.ACL {
	return append(zk.WorldACL(perms), zk.DigestACL(zk.PermRead, reader, reader)...)
}

type denial struct {
	perms   int32 // of every client in the lock's directory
	options []coordinator.LockOption
	ahead   int // nodes of another client, which holds the lock, and that no one else may read
	left    int // nodes of ours that may not be removed
	most    int32
}

// somebodyElse gives all permissions to one identity, and none to anyone else.
func somebodyElse() coordinator.LockOption {
	return coordinator.ACL(zk.DigestACL(zk.PermAll, "somebody", "else"))
}

// denials is not a variable: FIPS 140-only mode refuses the digest, so no test of the
// package would run.
func denials() map[string]denial {
	return map[string]denial{
		"create":                      {perms: zk.PermAll &^ zk.PermCreate, most: 1},
		"anything":                    {perms: zk.PermAdmin, most: 1},
		"read the queue":              {perms: zk.PermAll &^ zk.PermRead, most: 3},
		"read the own node":           {perms: zk.PermAll, options: []coordinator.LockOption{somebodyElse()}, most: 4},
		"read the node ahead":         {perms: zk.PermAll, ahead: 1, most: 5},
		"read or delete in the queue": {perms: zk.PermCreate, left: 1, most: 3},
	}
}

// play acquires a lock whose directory denies it. If srv is not nil, play counts the
// requests of an hour.
func (d denial) play(t *testing.T, s *site, srv *zktest.Server) {
	t.Helper()
	makeDir(t, s, d.perms)
	if d.ahead > 0 {
		other := s.connect(coordinator.WithAuth("digest", []byte("somebody:else")))
		coordtest.Hold(t, other.Mutex(lockPath, somebodyElse()))
	}
	victim := s.connect()
	id, start := victim.SessionID(), time.Now()
	var requests atomic.Int32
	if srv != nil {
		srv.Intercept(func(r zktest.Request) zktest.Action {
			// More than 200 mean an endless retry, where virtual time would stand still.
			if r.Session != id || r.Op == zktest.OpPing || requests.Add(1) <= 200 {
				return zktest.Pass()
			}
			return zktest.Swallow()
		})
	}
	a := victim.Mutex(lockPath, d.options...).Acquire(t.Context())
	_, err := a.Wait(coordtest.RealContext(t))
	expectError(t, err, coordinator.ErrNoAuth, "Wait")
	a.Release()
	_ = coordtest.EndOf(t, a)
	if srv != nil {
		took := time.Since(start)
		expect(t, took <= 100*time.Millisecond, "the refusal took %v, want no retry", took)
		time.Sleep(time.Hour)
		expect(t, requests.Load() <= d.most, "%d requests, want %d at most", requests.Load(), d.most)
	}
	wantLeft := func(when string, want int) {
		t.Helper()
		_, stat, err := s.raw.Exists(s.root + lockPath)
		eventstest.Must(t, err)
		expect(t, int(stat.NumChildren) == want, "%s there are %d nodes, want %d", when, stat.NumChildren, want)
	}
	wantLeft("after the refusal", d.left+d.ahead)
	eventstest.Check(t, victim.Close())
	wantLeft("after Close", d.ahead)
}

func TestDeniedIsErrNoAuthAtOnceWithoutRetriesAndWithoutANode(t *testing.T) {
	forEach(t, denials(), func(t *testing.T, srv *zktest.Server, d denial) {
		d.play(t, onTheDouble(t, srv), srv)
	})
}

func TestRealDenied(t *testing.T) {
	for name, d := range denials() {
		t.Run(name, func(t *testing.T) { d.play(t, onARealServer(t), nil) })
	}
}

// The tests from here on need a real server.

func TestRealBadInput(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Property("zookeeper.enforceQuota", "true"))
	addr := e.Addr(0)
	t.Run("quota", func(t *testing.T) {
		e.Needs(t, ensemble.HardQuotas)
		// The quota is two nodes: the lock's directory and one contender.
		limits := "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"
		makeNodes(t, coordtest.RawClient(t, addr), [2]string{"/limited"}, [2]string{"/zookeeper/quota/limited"},
			[2]string{"/zookeeper/quota/limited/zookeeper_limits", limits},
			[2]string{"/zookeeper/quota/limited/zookeeper_stats", "count=1,bytes=0"})
		c := coordtest.ConnectReal(t, addr+"/limited")
		a, _ := coordtest.Hold(t, c.Mutex("/lock"))
		for path, what := range map[string]string{"/lock": "a contender too much", "/elsewhere": "a directory too much"} {
			_, err := c.Mutex(path).Acquire(t.Context()).Wait(t.Context())
			expectError(t, err, coordinator.ErrQuota, what)
		}
		coordtest.NotLost(t, a)
		coordtest.End(a)
		coordtest.Hold(t, c.Mutex("/lock"))
	})
	t.Run("size limit", func(t *testing.T) { theLargest(t, onARealServer(t)) })
	t.Run("TLS to a plain port", func(t *testing.T) {
		says(t, "TLS", connectOnce(t, addr, "zk.example.com", &tls.Config{InsecureSkipVerify: true}, "tls: "), "tls: ")
	})
}

// Which errors blame the call, and which a condition on the servers?

// wantBlamed checks errors by the wanted error, and whether they are ErrInvalid.
func wantBlamed(t *testing.T, all map[error][]error, invalid bool) {
	t.Helper()
	for want, errs := range all {
		for i, err := range errs {
			expectError(t, err, want, fmt.Sprintf("call %d for %v", i, want))
			expect(t, errors.Is(err, coordinator.ErrInvalid) == invalid, "%v, want it ErrInvalid: %v", err, invalid)
		}
	}
}

// wrongCalls returns the errors of calls that are invalid in themselves.
func wrongCalls(t *testing.T, s *site) map[error][]error {
	t.Helper()
	c := s.connect()
	mutex, sem, delay := c.Mutex(lockPath), c.Semaphore(semPath, 2), coordinator.LockDelay
	acquired := func(l handle, options ...coordinator.AcquireOption) error {
		return coordtest.EndOf(t, l.Acquire(context.Background(), options...))
	}
	with := func(options ...coordinator.LockOption) error { return acquired(c.Mutex(lockPath, options...)) }
	cached := func(term coordinator.LockOption) error { return with(coordinator.Cached(term)) }
	connected := func(servers string) error {
		_, err := coordinator.Connect(t.Context(), servers)
		return err
	}
	held, _ := coordtest.Hold(t, c.Mutex("/held"))
	_, operation := held.Txn(t.Context(), "no operation")
	looked := func(l interface {
		Queue(ctx context.Context) ([]events.Contender, error)
	}) error {
		_, err := l.Queue(t.Context())
		return err
	}
	reentrant := c.Semaphore(semPath, 2, coordinator.Reentrant())
	huge := int64(1) << 40 // 0 as an int of 32 bits, which is an invalid number of permits too
	noACL := coordinator.ACL([]zk.ACL{})
	members := c.Multi(mutex, c.Mutex("/b", coordinator.Cached()))
	return map[error][]error{
		coordinator.ErrConnectString: {connected("zk1:99999")},
		coordinator.ErrGrace:         {c.Revoke(t.Context(), lockPath, -1)},
		coordinator.ErrOperation:     {operation},
		coordinator.ErrData:          {acquired(mutex, coordinator.Data([]byte(curatorsRequest)))},
		coordinator.ErrMembers:       {acquired(c.Multi())},
		coordinator.ErrDuplicate:     {acquired(c.Multi(mutex, mutex))},
		coordinator.ErrPath: {
			connected("zk1/a//b"), acquired(c.Mutex("no path")), looked(c.Mutex("no path")),
			c.Semaphore("no path", 1).Resize(t.Context(), 2),
		},
		coordinator.ErrTooLarge: {
			acquired(mutex, coordinator.Data(make([]byte, 1<<20))),
			acquired(c.Semaphore(semPath, 1<<30), coordinator.Permits(1<<30)),
		},
		coordinator.ErrPermits: {
			acquired(sem, coordinator.Permits(0)), acquired(sem, coordinator.Permits(-1)),
			acquired(sem, coordinator.Permits(3)), acquired(c.Semaphore(semPath, int(huge))),
			acquired(c.Semaphore(semPath, 0)), acquired(c.Semaphore(semPath, -3, coordinator.AdoptSize())),
			sem.Resize(t.Context(), int(huge)), sem.Resize(t.Context(), 0),
		},
		coordinator.ErrInvalid: {
			with(noACL), with(coordinator.ACL(nil)), acquired(c.Multi(c.Mutex(lockPath, noACL))),
			mutex.Do(t.Context(), nil), sem.Do(t.Context(), nil),
			cached(coordinator.CacheHandoffs(-1)), cached(coordinator.CacheHandoffs(1<<20 + 1)),
			cached(coordinator.CacheHandoffs(math.MaxInt)), cached(coordinator.CacheFor(-1)),
			with(delay(-1)), with(delay(time.Minute + 1)), with(delay(time.Millisecond - 1)),
		},
		coordinator.ErrKind: {
			acquired(c.Multi(c.Unfair(lockPath))), acquired(c.Multi(c.Multi(mutex))),
			acquired(c.Multi(c.Mutex(lockPath, coordinator.Reentrant()))), acquired(members), looked(members),
			with(coordinator.AdoptSize()), looked(c.Mutex(lockPath, coordinator.AdoptSize())),
			acquired(reentrant), looked(reentrant), reentrant.Resize(t.Context(), 3),
			looked(c.ReadWrite(lockPath, coordinator.Cached())), acquired(c.Unfair(lockPath, delay(1))),
			looked(c.Unfair(lockPath, coordinator.Reentrant())), with(coordinator.Cached(), delay(time.Second)),
			looked(c.Election(lockPath, coordinator.Cached())), acquired(c.Semaphore(semPath, 2, delay(1))),
			acquired(c.Semaphore(lockPath, 2, coordinator.CacheFor(0))),
			with(coordinator.Cached(), coordinator.AsKazoo()),
			with(coordinator.Cached(), coordinator.DetectCrash()),
		},
	}
}

// goodCalls returns the errors of valid calls that fail because of other clients.
func goodCalls(t *testing.T, s *site) map[error][]error {
	t.Helper()
	c, other := s.connect(), s.connect()
	acquired := func(l handle, options ...coordinator.AcquireOption) error {
		return coordtest.EndOf(t, l.Acquire(context.Background(), options...))
	}
	coordtest.Hold(t, c.Mutex(lockPath))
	patience := acquired(other.Mutex(lockPath), coordinator.MaxWait(time.Millisecond))
	errs := map[error][]error{
		context.DeadlineExceeded:   {patience},
		coordinator.ErrTimeout:     {patience},
		coordinator.ErrNotAcquired: {acquired(other.Mutex(lockPath), coordinator.Try())},
		coordinator.ErrKind: { // the path is in use as another kind of lock, here and elsewhere
			acquired(c.ReadWrite(lockPath).Read()), c.Semaphore(lockPath, 2).Resize(t.Context(), 3),
			acquired(other.Unfair(lockPath)),
		},
	}
	coordtest.GrantOf(t, c.Semaphore(semPath, 2).Acquire(t.Context()))
	more := acquired(other.Semaphore(semPath, 3, coordinator.AdoptSize()), coordinator.Permits(3))
	errs[coordinator.ErrPermits] = []error{more}
	errs[coordinator.ErrSizeMismatch] = []error{acquired(other.Semaphore(semPath, 3))}
	_, err := s.raw.Set(s.root+semSize, []byte("many"), -1)
	eventstest.Must(t, err)
	errs[coordinator.ErrSizeNode] = []error{acquired(c.Semaphore(semPath, 2))}
	return errs
}

func TestAWrongCallIsErrInvalidAndNothingElseIs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := onTheDouble(t, srv)
		wantBlamed(t, wrongCalls(t, s), true)
		wantBlamed(t, goodCalls(t, s), false)
	})
}

func TestRealWrongCall(t *testing.T) {
	s := onARealServer(t)
	wantBlamed(t, wrongCalls(t, s), true)
	wantBlamed(t, goodCalls(t, s), false)
}
