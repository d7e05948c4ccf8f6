package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// realMax bounds every wait on real servers; nothing takes nearly as long.
const realMax = 40 * time.Second

// realContext ends with the test, or when something does not happen.
func realContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), realMax)
	t.Cleanup(cancel)
	return ctx
}

// connectReal connects until the test has ended.
func connectReal(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	options = append([]coordinator.Option{coordinator.WithSessionTimeout(10 * time.Second)}, options...)
	c, err := coordinator.Connect(realContext(t), servers, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// quietLog keeps the raw client's remarks out of the test's output.
type quietLog struct{}

func (quietLog) Printf(string, ...any) {}

// rawClient is a client that knows nothing of locks.
func rawClient(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, news, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quietLog{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range news { // until the client's goroutines have ended
		}
	})
	return conn
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(realMax)
	for !cond() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("it never happens that %s", what)
		}
	}
}

// queueOf returns the names in a lock's directory by the number that the server gave them.
func queueOf(t *testing.T, raw *zk.Conn, dir string) []string {
	t.Helper()
	names, _, err := raw.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int {
		na, _ := events.ParseName(a)
		nb, _ := events.ParseName(b)
		return events.CompareNames(na, nb)
	})
	return names
}

// queued waits until so many stand in the queue.
func queued(t *testing.T, raw *zk.Conn, dir string, n int) (names []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d stand at %s", n, dir), func() bool {
		names = queueOf(t, raw, dir)
		return len(names) == n
	})
	return names
}

func grantOf(t *testing.T, a *coordinator.Acquisition) events.Grant {
	t.Helper()
	grant, err := a.Wait(realContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func lossOf(t *testing.T, a *coordinator.Acquisition) events.Lost {
	t.Helper()
	select {
	case lost := <-a.Lost():
		return lost
	case <-realContext(t).Done():
		t.Fatal("no loss")
		return events.Lost{}
	}
}

func endOf(t *testing.T, a *coordinator.Acquisition) error {
	t.Helper()
	select {
	case <-a.Done():
		return a.Err()
	case <-realContext(t).Done():
		t.Fatal("no end")
		return nil
	}
}

// notLost checks that the lock is held and that nobody has said otherwise.
func notLost(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	select {
	case lost := <-a.Lost():
		t.Errorf("lost: %v", lost.Reason)
	case <-a.Done():
		t.Errorf("over: %v", a.Err())
	default:
	}
	if !a.Valid() {
		t.Errorf("not valid, deadline in %v", time.Until(a.Deadline()))
	}
}

// outage is two coordinators, one of which holds what the other waits for, while something happens to the servers.
type outage struct {
	holder, waiter *coordinator.Coordinator
	held, wanted   *coordinator.Acquisition
	grant          events.Grant
	ids            [2]int64
	names          []string
}

func beforeOutage(t *testing.T, servers string, raw *zk.Conn) *outage {
	t.Helper()
	o := &outage{holder: connectReal(t, servers), waiter: connectReal(t, servers)}
	o.ids = [2]int64{o.holder.SessionID(), o.waiter.SessionID()}
	o.held = o.holder.Mutex("/locks/outage").Acquire(t.Context())
	o.grant = grantOf(t, o.held)
	o.wanted = o.waiter.Mutex("/locks/outage").Acquire(t.Context())
	o.names = queued(t, raw, "/locks/outage", 2)
	return o
}

// survived checks that neither has lost its place, and that the lock goes from one to the other.
func (o *outage) survived(t *testing.T, raw *zk.Conn) {
	t.Helper()
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventually(t, "the coordinators are connected again", func() bool { return c.State() == coordinator.StateConnected })
	}
	if ids := [2]int64{o.holder.SessionID(), o.waiter.SessionID()}; ids != o.ids {
		t.Errorf("sessions %#x became %#x", o.ids, ids)
	}
	if names := queued(t, raw, "/locks/outage", 2); !slices.Equal(names, o.names) {
		t.Errorf("queue %v became %v", o.names, names)
	}
	notLost(t, o.held)
	select {
	case <-o.wanted.Granted():
		t.Error("granted to two")
	default:
	}
	o.held.Release()
	if err := endOf(t, o.held); err != nil {
		t.Error(err)
	}
	next := grantOf(t, o.wanted)
	if next.Token <= o.grant.Token || path.Base(next.Node) != o.names[1] || next.Session != o.ids[1] {
		t.Errorf("%+v after %+v", next, o.grant)
	}
	o.wanted.Release()
	if err := endOf(t, o.wanted); err != nil {
		t.Error(err)
	}
	queued(t, raw, "/locks/outage", 0)
}

func TestRealServerIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	e := ensemble.Start(t, 1)
	raw := rawClient(t, e.Addr(0))
	o := beforeOutage(t, e.Connect(), raw)
	if err := e.Kill(0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventually(t, "the coordinators notice", func() bool { return c.State() == coordinator.StateSuspended })
	}
	notLost(t, o.held) // suspended is not lost
	if err := e.Restart(0); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(realContext(t)); err != nil {
		t.Fatal(err)
	}
	o.survived(t, raw)
}

func TestRealLeaderIsKilled(t *testing.T) {
	t.Parallel()
	e := ensemble.Start(t, 3)
	ctx := realContext(t)
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	raw := rawClient(t, e.Addr((leader+1)%e.Size()))
	o := beforeOutage(t, e.Connect(), raw)
	if err := e.Kill(leader); err != nil {
		t.Fatal(err)
	}
	next, err := e.Leader(ctx)
	if err != nil || next == leader {
		t.Fatalf("leader %d after %d: %v", next, leader, err)
	}
	o.survived(t, raw)
}

// What one server is enough for.
func TestRealServer(t *testing.T) {
	t.Parallel()
	e := ensemble.Start(t, 1)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
		"first come first served":   realFIFO,
		"nodes deleted by somebody": realDeletedByHand,
		"close leaves no node":      realClose,
		"access control":            realACL,
		"chroot":                    realChroot,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

func realFIFO(t *testing.T, e *ensemble.Ensemble) {
	const dir, contenders = "/locks/fifo", 20
	raw := rawClient(t, e.Addr(0))
	var coordinators []*coordinator.Coordinator
	for range 4 {
		coordinators = append(coordinators, connectReal(t, e.Connect()))
	}
	queue := make([]*coordinator.Acquisition, contenders)
	for i := range queue {
		queue[i] = coordinators[i%len(coordinators)].Mutex(dir).Acquire(t.Context())
		queued(t, raw, dir, i+1) // so that the order of acceptance is that of the slice
	}
	var last events.Grant
	for i, a := range queue {
		grant := grantOf(t, a)
		for j, other := range queue[i+1:] {
			select {
			case <-other.Granted():
				t.Fatalf("%d is granted while %d holds", i+1+j, i)
			default:
			}
		}
		if grant.Token <= last.Token || grant.ID != a.ID() || grant.Path != dir {
			t.Errorf("%+v after %+v", grant, last)
		}
		notLost(t, a)
		last = grant
		a.Release()
	}
	for _, a := range queue {
		if err := endOf(t, a); err != nil {
			t.Error(err)
		}
	}
	queued(t, raw, dir, 0)
	// The directory was made as a container, and goes by itself.
	eventually(t, "the directory is gone", func() bool {
		exists, _, err := raw.Exists(dir)
		return err == nil && !exists
	})
}

func realDeletedByHand(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/byhand"
	raw := rawClient(t, e.Addr(0))
	holder, waiter := connectReal(t, e.Connect()), connectReal(t, e.Connect())
	stream := waiter.Events(t.Context())
	held := holder.Mutex(dir).Acquire(t.Context())
	grant := grantOf(t, held)
	wanted := waiter.Mutex(dir).Acquire(t.Context())
	for ahead := -1; ahead != 1; { // until it has listed, and waits
		select {
		case ev := <-stream:
			if q, ok := ev.(events.Queued); ok {
				ahead = q.Ahead
			}
		case <-realContext(t).Done():
			t.Fatal("never queued")
		}
	}
	names := queued(t, raw, dir, 2)

	if err := raw.Delete(path.Join(dir, names[1]), -1); err != nil {
		t.Fatal(err)
	}
	for requeued := false; !requeued; {
		select {
		case ev := <-stream:
			requeued = ev == events.Event(events.Requeued{ID: wanted.ID(), Path: dir})
		case <-realContext(t).Done():
			t.Fatal("never queued again")
		}
	}
	queued(t, raw, dir, 2)

	if err := raw.Delete(grant.Node, -1); err != nil {
		t.Fatal(err)
	}
	lost := lossOf(t, held)
	if lost.Reason != events.ReasonNodeRemoved || !errors.Is(lost.Err, coordinator.ErrNodeRemoved) || held.Valid() {
		t.Errorf("%+v", lost)
	}
	if next := grantOf(t, wanted); next.Token <= grant.Token || path.Base(next.Node) == names[1] {
		t.Errorf("%+v after %+v", next, grant)
	}
	wanted.Release()
	if err := endOf(t, wanted); err != nil {
		t.Error(err)
	}
}

func realClose(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/close"
	raw := rawClient(t, e.Addr(0))
	c := connectReal(t, e.Connect())
	held := c.Mutex(dir).Acquire(t.Context())
	grantOf(t, held)
	var waiting []*coordinator.Acquisition
	for range 5 {
		waiting = append(waiting, c.Mutex(dir).Acquire(t.Context()))
	}
	queued(t, raw, dir, 6)
	late := c.Mutex(dir).Acquire(t.Context()) // whose create is under way
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if names := queueOf(t, raw, dir); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	for _, a := range append(waiting, late) {
		if err := endOf(t, a); !errors.Is(err, coordinator.ErrClosed) {
			t.Error(err)
		}
	}
	if err := endOf(t, held); !errors.Is(err, coordinator.ErrClosed) {
		t.Error(err)
	}
}

func realACL(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/private/lock"
	acl := coordinator.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))
	ann := func() *coordinator.Coordinator {
		return connectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:secret")), acl)
	}
	held, wanted := ann().Mutex(dir).Acquire(t.Context()), ann().Mutex(dir).Acquire(t.Context())
	first, second := held, wanted
	select { // which of the two was faster is not ours to say
	case <-held.Granted():
	case <-wanted.Granted():
		first, second = wanted, held
	case <-realContext(t).Done():
		t.Fatal("no grant")
	}
	for name, c := range map[string]*coordinator.Coordinator{
		"nobody":                    connectReal(t, e.Connect()),
		"bob":                       connectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("bob:secret"))),
		"ann with another password": connectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:wrong"))),
	} {
		if err := endOf(t, c.Mutex(dir).Acquire(t.Context())); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	notLost(t, first)
	first.Release()
	grantOf(t, second)
	second.Release()

	if _, err := coordinator.Connect(realContext(t), e.Connect(), coordinator.WithAuth("nosuch", []byte("x"))); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("an unknown scheme: %v", err)
	}
}

func realChroot(t *testing.T, e *ensemble.Ensemble) {
	raw := rawClient(t, e.Addr(0))
	c := connectReal(t, e.Connect()+"/made/by/us") // and not there yet
	a := c.Mutex("/locks/chroot").Acquire(t.Context())
	grant := grantOf(t, a)
	if path.Dir(grant.Node) != "/locks/chroot" || grant.Path != "/locks/chroot" {
		t.Errorf("%+v", grant)
	}
	_, stat, err := raw.Get("/made/by/us" + grant.Node)
	if err != nil || stat.EphemeralOwner != grant.Session || stat.Czxid != grant.Token {
		t.Errorf("%+v, %v, granted %+v", stat, err, grant)
	}
	// From outside it is a lock at a longer path.
	other := connectReal(t, e.Connect()).Mutex("/made/by/us/locks/chroot").Acquire(t.Context())
	queued(t, raw, "/made/by/us/locks/chroot", 2)
	a.Release()
	if next := grantOf(t, other); next.Token <= grant.Token {
		t.Errorf("%+v after %+v", next, grant)
	}
	other.Release()
}
