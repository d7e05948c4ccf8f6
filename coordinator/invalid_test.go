package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Whether it is the call that is wrong, or what it met.

// blame is an error, what it has to be, and whether the call alone is wrong.
type blame struct {
	err     error
	want    error
	invalid bool
}

// wantBlamed checks each of them.
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
		"access for nobody":       {connected("zk1", coordinator.WithACL(nil)), coordinator.ErrInvalid, true},
		"a lock's":                {acquired(c.Mutex(lockPath, coordinator.WithACL([]zk.ACL{}))), coordinator.ErrInvalid, true},
		"a member's":              {acquired(c.Multi(c.Mutex(lockPath, coordinator.WithACL([]zk.ACL{})))), coordinator.ErrInvalid, true},
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

// goodCalls are calls that others have made fail.
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
		t.Errorf("who has waited too long ends with %v, want context.DeadlineExceeded as well", err)
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
