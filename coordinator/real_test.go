package coordinator_test

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

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
	o := &outage{holder: coordtest.ConnectReal(t, servers), waiter: coordtest.ConnectReal(t, servers)}
	o.ids = [2]int64{o.holder.SessionID(), o.waiter.SessionID()}
	o.held = o.holder.Mutex("/locks/outage").Acquire(t.Context())
	o.grant = coordtest.GrantOf(t, o.held)
	o.wanted = o.waiter.Mutex("/locks/outage").Acquire(t.Context())
	o.names = coordtest.Queued(t, raw, "/locks/outage", 2)
	return o
}

// survived checks that neither has lost its place, and that the lock goes from one to the other.
func (o *outage) survived(t *testing.T, raw *zk.Conn) {
	t.Helper()
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventstest.Eventually(t, "the coordinators are connected again", func() bool { return c.State() == coordinator.StateConnected })
	}
	if ids := [2]int64{o.holder.SessionID(), o.waiter.SessionID()}; ids != o.ids {
		t.Errorf("sessions %#x became %#x", o.ids, ids)
	}
	if names := coordtest.Queued(t, raw, "/locks/outage", 2); !slices.Equal(names, o.names) {
		t.Errorf("queue %v became %v", o.names, names)
	}
	coordtest.NotLost(t, o.held)
	select {
	case <-o.wanted.Granted():
		t.Error("granted to two")
	default:
	}
	o.held.Release()
	if err := coordtest.EndOf(t, o.held); err != nil {
		t.Error(err)
	}
	next := coordtest.GrantOf(t, o.wanted)
	if next.Token <= o.grant.Token || path.Base(next.Node) != o.names[1] || next.Session != o.ids[1] {
		t.Errorf("%+v after %+v", next, o.grant)
	}
	o.wanted.Release()
	if err := coordtest.EndOf(t, o.wanted); err != nil {
		t.Error(err)
	}
	coordtest.Queued(t, raw, "/locks/outage", 0)
}

func TestRealServerIsKilledAndComesBack(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	o := beforeOutage(t, e.Connect(), raw)
	if err := e.Kill(0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventstest.Eventually(t, "the coordinators notice", func() bool { return c.State() == coordinator.StateSuspended })
	}
	coordtest.NotLost(t, o.held) // suspended is not lost
	if err := e.Restart(0); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(coordtest.RealContext(t)); err != nil {
		t.Fatal(err)
	}
	o.survived(t, raw)
}

func TestRealLeaderIsKilled(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	raw := coordtest.RawClient(t, e.Addr((leader+1)%e.Size()))
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
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 1)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
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

// TestRealSmoke is the one test with a real server that runs where one is found, without being asked for: twenty contenders in four
// sessions are granted one at a time, in the order in which they came, with growing tokens, and leave nothing.
func TestRealSmoke(t *testing.T) {
	t.Parallel()
	e := coordtest.Servers(t, 1)
	const dir, contenders = "/locks/fifo", 20
	raw := coordtest.RawClient(t, e.Addr(0))
	var coordinators []*coordinator.Coordinator
	for range 4 {
		coordinators = append(coordinators, coordtest.ConnectReal(t, e.Connect()))
	}
	queue := make([]*coordinator.Acquisition, contenders)
	for i := range queue {
		queue[i] = coordinators[i%len(coordinators)].Mutex(dir).Acquire(t.Context())
		coordtest.Queued(t, raw, dir, i+1) // so that the order of acceptance is that of the slice
	}
	var last events.Grant
	for i, a := range queue {
		grant := coordtest.GrantOf(t, a)
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
		coordtest.NotLost(t, a)
		last = grant
		a.Release()
	}
	for _, a := range queue {
		if err := coordtest.EndOf(t, a); err != nil {
			t.Error(err)
		}
	}
	coordtest.Queued(t, raw, dir, 0)
	// The directory was made as a container, and goes by itself.
	eventstest.Eventually(t, "the directory is gone", func() bool {
		exists, _, err := raw.Exists(dir)
		return err == nil && !exists
	})
}

func realDeletedByHand(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/byhand"
	raw := coordtest.RawClient(t, e.Addr(0))
	holder, waiter := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	stream := waiter.Events(t.Context())
	held := holder.Mutex(dir).Acquire(t.Context())
	grant := coordtest.GrantOf(t, held)
	wanted := waiter.Mutex(dir).Acquire(t.Context())
	for ahead := -1; ahead != 1; { // until it has listed, and waits
		select {
		case ev := <-stream:
			if q, ok := ev.(events.Queued); ok {
				ahead = q.Ahead
			}
		case <-coordtest.RealContext(t).Done():
			t.Fatal("never queued")
		}
	}
	names := coordtest.Queued(t, raw, dir, 2)

	if err := raw.Delete(path.Join(dir, names[1]), -1); err != nil {
		t.Fatal(err)
	}
	for requeued := false; !requeued; {
		select {
		case ev := <-stream:
			requeued = ev == events.Event(events.Requeued{ID: wanted.ID(), Path: dir})
		case <-coordtest.RealContext(t).Done():
			t.Fatal("never queued again")
		}
	}
	coordtest.Queued(t, raw, dir, 2)

	if err := raw.Delete(grant.Node, -1); err != nil {
		t.Fatal(err)
	}
	lost := coordtest.LossOf(t, held)
	if lost.Reason != events.ReasonNodeRemoved || !errors.Is(lost.Err, coordinator.ErrNodeRemoved) || held.Valid() {
		t.Errorf("%+v", lost)
	}
	if next := coordtest.GrantOf(t, wanted); next.Token <= grant.Token || path.Base(next.Node) == names[1] {
		t.Errorf("%+v after %+v", next, grant)
	}
	wanted.Release()
	if err := coordtest.EndOf(t, wanted); err != nil {
		t.Error(err)
	}
}

func realClose(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/close"
	raw := coordtest.RawClient(t, e.Addr(0))
	c := coordtest.ConnectReal(t, e.Connect())
	held := c.Mutex(dir).Acquire(t.Context())
	coordtest.GrantOf(t, held)
	var waiting []*coordinator.Acquisition
	for range 5 {
		waiting = append(waiting, c.Mutex(dir).Acquire(t.Context()))
	}
	coordtest.Queued(t, raw, dir, 6)
	late := c.Mutex(dir).Acquire(t.Context()) // whose create is under way
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if names := coordtest.QueueOf(t, raw, dir); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	for _, a := range append(waiting, late) {
		if err := coordtest.EndOf(t, a); !errors.Is(err, coordinator.ErrClosed) {
			t.Error(err)
		}
	}
	if err := coordtest.EndOf(t, held); !errors.Is(err, coordinator.ErrClosed) {
		t.Error(err)
	}
}

func realACL(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/private/lock"
	acl := coordinator.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))
	ann := func() *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:secret")), acl)
	}
	held, wanted := ann().Mutex(dir).Acquire(t.Context()), ann().Mutex(dir).Acquire(t.Context())
	first, second := held, wanted
	select { // which of the two was faster is not ours to say
	case <-held.Granted():
	case <-wanted.Granted():
		first, second = wanted, held
	case <-coordtest.RealContext(t).Done():
		t.Fatal("no grant")
	}
	for name, c := range map[string]*coordinator.Coordinator{
		"nobody":                    coordtest.ConnectReal(t, e.Connect()),
		"bob":                       coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("bob:secret"))),
		"ann with another password": coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:wrong"))),
	} {
		if err := coordtest.EndOf(t, c.Mutex(dir).Acquire(t.Context())); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	coordtest.NotLost(t, first)
	first.Release()
	coordtest.GrantOf(t, second)
	second.Release()

	if _, err := coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithAuth("nosuch", []byte("x"))); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("an unknown scheme: %v", err)
	}
}

func realChroot(t *testing.T, e *ensemble.Ensemble) {
	raw := coordtest.RawClient(t, e.Addr(0))
	c := coordtest.ConnectReal(t, e.Connect()+"/made/by/us") // and not there yet
	a := c.Mutex("/locks/chroot").Acquire(t.Context())
	grant := coordtest.GrantOf(t, a)
	if path.Dir(grant.Node) != "/locks/chroot" || grant.Path != "/locks/chroot" {
		t.Errorf("%+v", grant)
	}
	_, stat, err := raw.Get("/made/by/us" + grant.Node)
	if err != nil || stat.EphemeralOwner != grant.Session || stat.Czxid != grant.Token {
		t.Errorf("%+v, %v, granted %+v", stat, err, grant)
	}
	// From outside it is a lock at a longer path.
	other := coordtest.ConnectReal(t, e.Connect()).Mutex("/made/by/us/locks/chroot").Acquire(t.Context())
	coordtest.Queued(t, raw, "/made/by/us/locks/chroot", 2)
	a.Release()
	if next := coordtest.GrantOf(t, other); next.Token <= grant.Token {
		t.Errorf("%+v after %+v", next, grant)
	}
	other.Release()
}
