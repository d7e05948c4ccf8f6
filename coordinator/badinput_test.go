package coordinator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
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
		for _, path := range []string{
			"", "a", "a/b", " /a", "//", "/a/", "/a//b", "/a/../b", "/..", "/./a", "/a\x00", "/\x00", "/a\x1f", "/a\xff", "/\U0001F512",
			"/zookeeper", "/zookeeper/x", "/zookeeper/quota/locks",
			"/" + strings.Repeat("a", 1<<20), strings.Repeat("/a", 1<<19), strings.Repeat("x", 1<<20),
		} {
			for name, ask := range map[string]func(*coordinator.Lock) error{
				"Acquire": func(l *coordinator.Lock) error {
					a := l.Acquire(t.Context())
					defer a.Release()
					if !coordtest.IsClosed(a.Done()) {
						t.Errorf("%.20q: not over when Acquire returned, want it over", path)
					}
					return a.Err()
				},
				"Try": func(l *coordinator.Lock) error {
					_, err := l.Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
					return err
				},
				"Do": func(l *coordinator.Lock) error {
					return l.Do(t.Context(), func(context.Context, events.Grant) error { return nil })
				},
			} {
				err := ask(c.Mutex(path))
				if !errors.Is(err, coordinator.ErrPath) {
					t.Errorf("%s of %.20q = %v, want ErrPath", name, path, err)
				} else if len(err.Error()) > 200 {
					t.Errorf("%s of %.20q: the error has %d bytes, want at most 200", name, path, len(err.Error()))
				}
				if len(path) >= 1<<20 && !errors.Is(err, coordinator.ErrTooLarge) {
					t.Errorf("%s of a path of %d bytes = %v, want ErrTooLarge", name, len(path), err)
				}
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests were sent for bad paths, want none", n)
		}
	})
}

// Only the servers' own tree is refused, and not a path of the application with the same name.
func TestTheServersTreeIsRefusedWhereverTheChrootIs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		coordtest.Hold(t, connectBelow(t, srv, "/app").Mutex("/zookeeper/x"))
		if got := srv.Children("/app/zookeeper/x"); len(got) != 1 {
			t.Errorf("a lock at /zookeeper/x below /app has %v, want one node there; the tree is %v", got, srv.Tree())
		}
		coordtest.Hold(t, connectBelow(t, srv, "").Mutex("/zookeepers"))
		for _, path := range []string{"/x", "/"} {
			a := connectBelow(t, srv, "/zookeeper").Mutex(path).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("%s below /zookeeper ends with %v, want ErrPath", path, a.Err())
			}
		}
	})
}

// What is refused for its size is refused here, and what is not is accepted by the server. A server hangs up at a request
// that is too long. That would look like an outage, and the request would be retried for ever.
func TestWhatIsTooLargeIsRefusedAndNothingElse(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := onTheDouble(t, srv)
		c := s.connect()
		sent := coordtest.Traffic(srv)
		hugeACL := slices.Repeat([]zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: strings.Repeat("x", 100) + ":y"}}, 10_000)
		for name, a := range map[string]*coordinator.Acquisition{
			"data": c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithData(make([]byte, sizeLimit))),
			"acl":  c.Mutex(lockPath, coordinator.WithACL(hugeACL)).Acquire(t.Context()),
		} {
			if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrTooLarge) || errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("too much %s: over at once %v, Err = %v; want ErrTooLarge at once", name, coordtest.IsClosed(a.Done()), a.Err())
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests for what is too large, want none", n)
		}
		theLargest(t, s)
		if n := srv.Requests(zktest.OpConnect); n != 3 {
			t.Errorf("%d handshakes of three clients, want 3: the server hung up", n)
		}
	})
}

// sizeLimit is for the path, the data and the access control list.
const sizeLimit = 0xfffff - 1<<10

// theLargest holds locks with as much data, and with as long a path, as is not refused. The server takes them.
func theLargest(t *testing.T, s *site) {
	t.Helper()
	world := zk.WorldACL(zk.PermAll)[0]
	fits := sizeLimit - len(s.root+lockPath) - 12 - len(world.Scheme) - len(world.ID)
	c := s.connect(coordinator.WithNodeBudget(2 * sizeLimit)) // for one node at the longest path
	id := c.SessionID()
	a, grant := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithData(make([]byte, fits)))
	if data, _, err := s.raw.Get(s.root + grant.Node); len(data) != fits {
		t.Errorf("the node has %d bytes, %v; want %d", len(data), err, fits)
	}
	coordtest.End(a)
	long := "/" + strings.Repeat("a", fits-1+len(lockPath))
	b, grant := coordtest.Hold(t, c.Mutex(long))
	if !strings.HasPrefix(grant.Node, long) {
		t.Errorf("the longest path is granted as one of %d bytes, want %d and the name", len(grant.Node), len(long))
	}
	coordtest.End(b)
	if a.Err() != nil || b.Err() != nil || c.SessionID() != id || c.State() != coordinator.StateConnected {
		t.Errorf("the largest ended with %v and %v, in session %x after %x, %v; want nil, and the session alive",
			a.Err(), b.Err(), c.SessionID(), id, c.State())
	}
}

// If access control denies a request, the acquisition ends at once. Nothing is retried, and every node is removed that
// may be removed.

// A site is a part of the tree of a server, the double or a real one, in which a scenario is played.
type site struct {
	connect func(options ...coordinator.Option) *coordinator.Coordinator // below the root
	raw     *zk.Conn                                                     // a plain client, of the whole tree
	root    string
}

// onTheDouble returns the whole tree of the double.
func onTheDouble(t *testing.T, srv *zktest.Server) *site {
	t.Helper()
	connect := func(options ...coordinator.Option) *coordinator.Coordinator {
		return coordtest.Connect(t, srv, options...)
	}
	return &site{connect, coordtest.Admin(t, srv.Addr(), srv.DialContext), ""}
}

// onARealServer returns a part of the tree of the real server that the tests share.
func onARealServer(t *testing.T) *site {
	t.Helper()
	eventstest.NeedsServers(t)
	addr, root := coordtest.Servers(t, 1).Addr(0), "/"+strings.NewReplacer("/", "-", " ", "_").Replace(t.Name())
	connect := func(options ...coordinator.Option) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, addr+root, options...)
	}
	return &site{connect, coordtest.RawClient(t, addr), root}
}

// makeDir makes the directory of lockPath, below a parent that is open to every client. Every client has exactly these
// permissions in the directory. The raw client may also read it: servers since 3.8.4 do not show to others that a node
// exists.
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

// reader is the raw client's name, and its password.
const reader = "reader"

// andReader is the access list of a node with these permissions for every client, and READ for the raw client.
func andReader(perms int32) []zk.ACL {
	return append(zk.WorldACL(perms), zk.DigestACL(zk.PermRead, reader, reader)...)
}

// storm is how many requests show an endless retry. Virtual time stands still meanwhile, so the test would not end; so
// the test servers give no answer from then on.
const storm = 200

// denial is a way to be denied.
type denial struct {
	perms   int32 // of every client in the lock's directory
	options []coordinator.LockOption
	ahead   []coordinator.LockOption // of another client's holder, if not nil
	left    int                      // own nodes that may not be removed
	most    int32                    // requests
}

// somebodyElse gives all permissions to one identity, and none to others.
func somebodyElse() coordinator.LockOption {
	return coordinator.WithACL(zk.DigestACL(zk.PermAll, "somebody", "else"))
}

func denials() map[string]denial {
	return map[string]denial{
		"create":                      {perms: zk.PermAll &^ zk.PermCreate, most: 1},
		"anything":                    {perms: zk.PermAdmin, most: 1},
		"read the queue":              {perms: zk.PermAll &^ zk.PermRead, most: 3},
		"read the own node":           {perms: zk.PermAll, options: []coordinator.LockOption{somebodyElse()}, most: 4},
		"read the node ahead":         {perms: zk.PermAll, ahead: []coordinator.LockOption{somebodyElse()}, most: 5},
		"read or delete in the queue": {perms: zk.PermCreate, left: 1, most: 3},
	}
}

// play has an acquisition denied. watch gets its coordinator before it starts; settle is called when it has ended.
func (d denial) play(t *testing.T, s *site, watch func(victim *coordinator.Coordinator), settle func()) {
	t.Helper()
	makeDir(t, s, d.perms)
	ahead := 0
	if d.ahead != nil {
		ahead = 1
		coordtest.Hold(t, s.connect(coordinator.WithAuth("digest", []byte("somebody:else"))).Mutex(lockPath, d.ahead...))
	}
	victim := s.connect()
	watch(victim)
	a := victim.Mutex(lockPath, d.options...).Acquire(t.Context())
	if _, err := a.Wait(coordtest.RealContext(t)); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("Wait = %v, want ErrNoAuth", err)
	}
	a.Release()
	_ = coordtest.EndOf(t, a)
	settle()
	wantNodes := func(when string, want int) {
		t.Helper()
		if _, stat, err := s.raw.Exists(s.root + lockPath); err != nil || int(stat.NumChildren) != want {
			t.Errorf("%s there are %d nodes, %v; want %d", when, stat.NumChildren, err, want)
		}
	}
	wantNodes("after the refusal", d.left+ahead)
	if err := victim.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	wantNodes("after Close", ahead)
}

func TestDeniedIsErrNoAuthAtOnceWithoutRetriesAndWithoutANode(t *testing.T) {
	for name, d := range denials() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				var requests atomic.Int32
				start := time.Now()
				d.play(t, onTheDouble(t, srv), func(victim *coordinator.Coordinator) {
					id := victim.SessionID()
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Session != id || r.Op == zktest.OpPing || requests.Add(1) <= storm {
							return zktest.Pass()
						}
						return zktest.Swallow()
					})
				}, func() {
					if took := time.Since(start); took > 100*time.Millisecond {
						t.Errorf("the refusal took %v, want no retry", took)
					}
					time.Sleep(time.Hour)
					if n := requests.Load(); n > d.most {
						t.Errorf("%d requests in an hour, want no more than %d", n, d.most)
					}
				})
			})
		})
	}
}

// TestRealDenied is the same on a real server, without counting requests.
func TestRealDenied(t *testing.T) {
	for name, d := range denials() {
		t.Run(name, func(t *testing.T) { d.play(t, onARealServer(t), func(*coordinator.Coordinator) {}, func() {}) })
	}
}

// Without permission to delete there is a Grant, and Err reports what is left after Release.
func TestDeniedToReleaseIsSaidByErr(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		makeDir(t, onTheDouble(t, srv), zk.PermRead|zk.PermCreate)
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath))
		waiter := coordtest.Queue(c.Mutex(lockPath))
		sent := coordtest.Traffic(srv)
		waiter.Release()
		coordtest.End(holder)
		<-waiter.Done()
		if !errors.Is(holder.Err(), coordinator.ErrNoAuth) || holder.Valid() {
			t.Errorf("the released holder ends with %v, valid %v; want ErrNoAuth, and not valid", holder.Err(), holder.Valid())
		}
		time.Sleep(time.Hour)
		if n := sent.Load(); n != 2 || len(srv.Children(lockPath)) != 2 {
			t.Errorf("an hour later: %d requests, and the nodes %v; want 2 and 2", n, srv.Children(lockPath))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("after Close the nodes are %v, want none", got)
		}
	})
}

// The server refuses the list. There is no retry, because it would be refused again.
func TestAnAccessControlListThatIsRefusedIsNotTriedAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		makeDir(t, onTheDouble(t, srv), zk.PermAll)
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for name, acl := range map[string][]zk.ACL{
			"no such scheme":       {{Perms: zk.PermAll, Scheme: "crystal", ID: "ball"}},
			"auth without an auth": zk.AuthACL(zk.PermAll),
		} {
			a := c.Mutex(lockPath, coordinator.WithACL(acl)).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), zk.ErrInvalidACL) {
				t.Errorf("%s: the acquisition ends with %v, want zk.ErrInvalidACL", name, a.Err())
			}
		}
		time.Sleep(time.Hour)
		if n := sent.Load(); n != 2 {
			t.Errorf("%d requests in an hour, want one for each list", n)
		}
	})
}

// These need a real server.

// makeNodes makes persistent nodes that are open to every client.
func makeNodes(t *testing.T, conn *zk.Conn, nodes ...[2]string) {
	t.Helper()
	for _, node := range nodes {
		_, err := conn.Create(node[0], []byte(node[1]), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("create %s: %v", node[0], err)
		}
	}
}

func TestRealBadInput(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Property("zookeeper.enforceQuota", "true"))
	addr := e.Addr(0)
	conn := coordtest.RawClient(t, addr)
	t.Run("quota", func(t *testing.T) { testQuotaReal(t, addr, conn) })
	t.Run("size limit", func(t *testing.T) { theLargest(t, onARealServer(t)) })
	t.Run("reaper", func(t *testing.T) { testReaperReal(t, addr) })
	t.Run("TLS to a plain port", func(t *testing.T) {
		says(t, "TLS", connectOnce(t, addr, "zk.example.com", &tls.Config{InsecureSkipVerify: true}), "tls: ")
	})
}

// testQuotaReal lets two nodes exist below the quota's path: the lock's directory and one contender.
func testQuotaReal(t *testing.T, addr string, conn *zk.Conn) {
	makeNodes(t, conn, [2]string{"/limited"}, [2]string{"/zookeeper/quota/limited"},
		[2]string{"/zookeeper/quota/limited/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"},
		[2]string{"/zookeeper/quota/limited/zookeeper_stats", "count=1,bytes=0"})
	c := coordtest.ConnectReal(t, addr+"/limited")
	a, _ := coordtest.Hold(t, c.Mutex("/lock"))
	b := c.Mutex("/lock").Acquire(t.Context())
	if _, err := b.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("a contender too much ends with %v, want ErrQuota", err)
	}
	elsewhere := c.Mutex("/elsewhere").Acquire(t.Context()) // the directory is too much already
	if _, err := elsewhere.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("a directory too much ends with %v, want ErrQuota", err)
	}
	if !a.Valid() {
		t.Error("the holder has lost the lock to what was refused, want it held")
	}
	coordtest.End(a)
	coordtest.Hold(t, c.Mutex("/lock"))
}

// testReaperReal takes and gives back locks, from several sessions. The server reaps their containers five times a
// second.
func testReaperReal(t *testing.T, addr string) {
	const workers, dirs, length = 4, 8, 3 * time.Second
	var reborn, cycles atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for w := range workers {
		c := coordtest.ConnectReal(t, addr)
		all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				a := c.Mutex(fmt.Sprintf("/reaped/%d/%d", w, i%dirs)).Acquire(t.Context())
				grant, err := a.Wait(t.Context())
				if err != nil {
					t.Errorf("worker %d, cycle %d: %v, want a grant", w, i, err)
					return
				}
				cycles.Add(1)
				if strings.HasSuffix(grant.Node, "lock-0000000000") {
					reborn.Add(1)
				}
				a.Release()
				select { // the more often, the more often it is empty when the reaper looks
				case <-a.Done():
				case <-t.Context().Done():
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d cycles, %d of them in a new directory", cycles.Load(), reborn.Load())
	if reborn.Load() <= workers*dirs {
		t.Errorf("%d grants were the first of their directory, want more than the %d directories: it was reaped", reborn.Load(), workers*dirs)
	}
}

// Is the call wrong, or did it meet a condition on the servers?

// blame is an error, the wanted error, and whether the call alone is wrong.
type blame struct {
	err     error
	want    error
	invalid bool
}

// wantBlamed checks each blame.
func wantBlamed(t *testing.T, all map[string]blame) {
	t.Helper()
	for what, b := range all {
		if !errors.Is(b.err, b.want) || errors.Is(b.err, coordinator.ErrInvalid) != b.invalid {
			t.Errorf("%s: %v, which is ErrInvalid: %v; want %v, %v", what, b.err, errors.Is(b.err, coordinator.ErrInvalid), b.want, b.invalid)
		}
	}
}

// wrongCalls are calls that are wrong in themselves.
func wrongCalls(t *testing.T, s *site) map[string]blame {
	t.Helper()
	c := s.connect()
	mutex, unfair, sem := c.Mutex(lockPath), c.Unfair(lockPath), c.Semaphore(semPath, 2)
	reentrant := c.Mutex(lockPath, coordinator.Reentrant())
	ended := func(a *coordinator.Acquisition) error { return coordtest.EndOf(t, a) }
	acquired := func(l *coordinator.Lock, options ...coordinator.AcquireOption) error {
		return ended(l.Acquire(context.Background(), options...))
	}
	permits := func(s *coordinator.Semaphore, n int) error {
		return ended(s.Acquire(context.Background(), coordinator.WithPermits(n)))
	}
	connected := func(servers string, options ...coordinator.Option) error {
		_, err := coordinator.Connect(t.Context(), servers, options...)
		return err
	}
	held, _ := coordtest.Hold(t, c.Mutex("/held"))
	_, operation := held.Txn(t.Context(), "no operation")
	_, noQueue := c.Mutex("no path").Queue(t.Context())
	return map[string]blame{
		"servers":                 {connected("zk1:99999"), coordinator.ErrConnectString, true},
		"chroot":                  {connected("zk1/a//b"), coordinator.ErrPath, true},
		"tick":                    {connected("zk1", coordinator.WithTickTime(-1)), coordinator.ErrInvalid, true},
		"probe interval":          {connected("zk1", coordinator.WithProbeInterval(-1)), coordinator.ErrInvalid, true},
		"an empty ACL":            {connected("zk1", coordinator.WithACL(nil)), coordinator.ErrInvalid, true},
		"a lock's":                {acquired(c.Mutex(lockPath, coordinator.WithACL([]zk.ACL{}))), coordinator.ErrInvalid, true},
		"a lock's that is nil":    {acquired(c.Mutex(lockPath, coordinator.WithACL(nil))), coordinator.ErrInvalid, true},
		"a member's":              {acquired(c.Multi(c.Mutex(lockPath, coordinator.WithACL([]zk.ACL{})))), coordinator.ErrInvalid, true},
		"no function":             {mutex.Do(t.Context(), nil), coordinator.ErrInvalid, true},
		"no function of permits":  {sem.Do(t.Context(), nil), coordinator.ErrInvalid, true},
		"no term to proclaim":     {c.Election(lockPath).Proclaim(t.Context(), &coordinator.Acquisition{}, nil), coordinator.ErrNotCandidate, true},
		"path":                    {acquired(c.Mutex("no path")), coordinator.ErrPath, true},
		"path to look at":         {noQueue, coordinator.ErrPath, true},
		"data":                    {acquired(mutex, coordinator.WithData(make([]byte, 1<<20))), coordinator.ErrTooLarge, true},
		"reserved data":           {acquired(mutex, coordinator.WithData([]byte(curatorsWish))), coordinator.ErrData, true},
		"no members":              {acquired(c.Multi()), coordinator.ErrMembers, true},
		"the same twice":          {acquired(c.Multi(mutex, mutex)), coordinator.ErrDuplicate, true},
		"unfair member":           {acquired(c.Multi(unfair)), coordinator.ErrKind, true},
		"reentrant member":        {acquired(c.Multi(reentrant)), coordinator.ErrKind, true},
		"multi-lock as a member":  {acquired(c.Multi(c.Multi(mutex))), coordinator.ErrKind, true},
		"unfair as kazoo's":       {acquired(c.Unfair(lockPath, coordinator.AsKazoo())), coordinator.ErrKind, true},
		"unfair, telling crashes": {acquired(c.Unfair(lockPath, coordinator.DetectCrash())), coordinator.ErrKind, true},
		"unfair, revocable":       {acquired(c.Unfair(lockPath, coordinator.Revocable())), coordinator.ErrKind, true},
		"no permits":              {permits(sem, 0), coordinator.ErrPermits, true},
		"more than all permits":   {permits(sem, 3), coordinator.ErrPermits, true},
		"a size of none":          {permits(c.Semaphore(semPath, 0), 1), coordinator.ErrPermits, true},
		"resized to none":         {sem.Resize(t.Context(), 0), coordinator.ErrPermits, true},
		"permits of a mutex":      {acquired(mutex, coordinator.WithPermits(1)), coordinator.ErrPermits, true},
		"negative grace":          {c.Revoke(t.Context(), lockPath, -1), coordinator.ErrGrace, true},
		"operation":               {operation, coordinator.ErrOperation, true},
		"no candidate":            {c.Election(lockPath).Proclaim(t.Context(), nil, nil), coordinator.ErrNotCandidate, true},
	}
}

// goodCalls are calls that fail because of other clients.
func goodCalls(t *testing.T, s *site) map[string]blame {
	t.Helper()
	c, other := s.connect(), s.connect()
	ended := func(a *coordinator.Acquisition) error { return coordtest.EndOf(t, a) }
	ctx := context.Background()
	coordtest.Hold(t, c.Mutex(lockPath))
	errs := map[string]blame{
		"patience": {ended(other.Mutex(lockPath).Acquire(ctx, coordinator.WithMaxWait(time.Millisecond))), coordinator.ErrTimeout, false},
		"a try":    {ended(other.Mutex(lockPath).Acquire(ctx, coordinator.Try())), coordinator.ErrNotAcquired, false},
		"in use as another kind of lock": {
			ended(c.ReadWrite(lockPath).Read().Acquire(ctx)), coordinator.ErrKind, false,
		},
		"no node of a lock": {ended(other.Unfair(lockPath).Acquire(ctx)), coordinator.ErrKind, false},
	}
	if err := errs["patience"].err; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that waited too long ends with %v, want context.DeadlineExceeded as well", err)
	}
	if _, err := c.Semaphore(semPath, 2).Acquire(ctx).Wait(coordtest.RealContext(t)); err != nil {
		t.Fatal(err)
	}
	adopting := other.Semaphore(semPath, 3, coordinator.AdoptSize())
	errs["more permits than the servers have"] = blame{ended(adopting.Acquire(ctx, coordinator.WithPermits(3))), coordinator.ErrPermits, false}
	errs["another size"] = blame{ended(other.Semaphore(semPath, 3).Acquire(ctx)), coordinator.ErrSizeMismatch, false}
	_, err := s.raw.Set(s.root+semSize, []byte("many"), -1)
	eventstest.Must(t, err)
	errs["no size"] = blame{ended(c.Semaphore(semPath, 2).Acquire(ctx)), coordinator.ErrSizeNode, false}
	return errs
}

func TestAWrongCallIsErrInvalidAndNothingElseIs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := onTheDouble(t, srv)
		wantBlamed(t, wrongCalls(t, s))
		wantBlamed(t, goodCalls(t, s))
	})
}

// TestRealWrongCall is the same on a real server.
func TestRealWrongCall(t *testing.T) {
	s := onARealServer(t)
	wantBlamed(t, wrongCalls(t, s))
	wantBlamed(t, goodCalls(t, s))
}
