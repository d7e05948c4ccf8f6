package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// lastID is the number of the latest acquisition of the process.
//
//nolint:gochecknoglobals // IDs are unique in the process, because a group has locks of several coordinators
var lastID atomic.Uint64

// overhead is an upper bound for what a create takes besides the path, the data and the
// ACL.
const overhead = 1 << 10

// systemTree is where servers keep their configuration and quotas.
const systemTree = "/zookeeper"

// Lock is the [Handle] of a mutex, a side of a read/write lock, an unfair lock, or a
// multi-lock.
type Lock struct {
	c    *Coordinator
	path string
	kind *kind
	rule recipes.Rule
	cfg  lockConfig

	members *members // nil: not a multi-lock

	cached *cache.Handle // nil: each acquisition has a node of its own

	marks events.Marks // in the nodes' names
	nodes int          // how many nodes a create makes
	size  int          // of a create without data, in bytes, without the overhead
	above string       // the semaphore that would use the path for itself, or ""
	err   error        // what is wrong with the handle
	unfit error        // why no node may be created at the path; Queue still reads it
}

// handle returns a handle. It is checked once, here; if it is invalid, each acquisition
// ends with the error.
func (c *Coordinator) handle(path string, kind *kind, rule recipes.Rule, cfg lockConfig) *Lock {
	l := &Lock{c: c, path: path, kind: kind.as(cfg), rule: rule, cfg: cfg, nodes: 1}
	l.above = session.InnerOf(path)
	if l.err = l.wrong(); l.err == nil {
		l.unfit = session.ValidateNew(c.chroot+path, true)
	}
	l.cached = l.caching()
	l.size = len(c.chroot) + len(path) + session.SizeOfACL(l.acl())
	if cfg.revocable {
		l.marks = events.MarkRevocable
		l.size += session.TimeoutSize
	}
	if cfg.detect {
		// A record has the names of one or two nodes, and its own path is sent, too. A
		// contender with a delay marks it.
		l.size += 3*(len(c.chroot)+len(path)+len(session.RecordSuffix)) + session.MarkRoom
	}
	return l
}

// Mutex returns a handle for the fair mutex at the path: one holder at a time, in order
// of arrival.
func (c *Coordinator) Mutex(path string, options ...LockOption) *Lock {
	cfg := lockConfigOf(options)
	return c.handle(path, kindMutex, recipes.Mutex{Kazoo: cfg.kazoo}, cfg)
}

// ReadWrite is a handle for both sides of a read/write lock.
type ReadWrite struct{ read, write *Lock }

// ReadWrite returns a handle for the read/write lock at the path: one writer, or any
// number of readers, in order of arrival.
func (c *Coordinator) ReadWrite(path string, options ...LockOption) *ReadWrite {
	cfg := lockConfigOf(options)
	return &ReadWrite{
		read:  c.handle(path, kindReadWrite, recipes.Read{Kazoo: cfg.kazoo}, cfg),
		write: c.handle(path, kindReadWrite, recipes.Write{Kazoo: cfg.kazoo}, cfg),
	}
}

// Read returns the side that readers hold together. Its Token is not a fencing token.
//
// To become a reader with no other writer in between, a writer acquires this side with
// the [Acquisition.Context] of the write lock, and then releases the write lock.
func (rw *ReadWrite) Read() *Lock { return rw.read }

// Write returns the side that one writer holds alone. With the context of a held read
// lock, Acquire is [ErrDeadlock]; docs/kinds.md has two ways out.
func (rw *ReadWrite) Write() *Lock { return rw.write }

// Unfair returns a handle for an unfair lock: one ephemeral node at the path, held by the
// contender that creates it. Waiters retry after a random delay, so use it with few of
// them, or with [Try]. Another node at the path is [ErrKind].
func (c *Coordinator) Unfair(path string, options ...LockOption) *Lock {
	return c.handle(path, kindUnfair, recipes.Unfair{}, lockConfigOf(options))
}

// Path returns the path.
func (l *Lock) Path() string { return l.path }

// Acquire requests the lock and returns at once. Every outcome arrives on a channel of
// the acquisition, errors for invalid arguments included. ctx bounds the wait until the
// Grant is taken; after that, only Release, Abandon, a loss or Close ends it.
func (l *Lock) Acquire(ctx context.Context, options ...AcquireOption) *Acquisition {
	return l.acquire(ctx, configOf(options))
}

func configOf(options []AcquireOption) acquireConfig {
	if len(options) == 0 {
		return acquireConfig{} // without an allocation
	}
	cfg := &acquireConfig{}
	for _, o := range options {
		if o != nil {
			o.applyAcquire(cfg)
		}
	}
	return *cfg
}

func (l *Lock) acquire(ctx context.Context, cfg acquireConfig) *Acquisition {
	c := l.c
	a := &Acquisition{id: lastID.Add(1), lock: l}
	// Hooks and log come first, so that they also see a request that fails at once.
	for _, hook := range c.hooks.acquire {
		hook.OnAcquire(ctx, hooks.Acquire{
			ID: a.id, Path: l.path, Kind: l.word(), Try: cfg.try, Permits: l.permits(),
		})
	}
	house, what := &c.house, "lock requested"
	if l.kind.leads {
		house, what = &c.elections, "leadership requested"
	}
	if ce := c.cfg.Logger.Check(house.Level, what); ce != nil {
		ce.Write(zap.String("path", l.path), zap.Uint64("id", a.id),
			zap.String("kind", l.word()), zap.Bool("try", cfg.try))
	}

	err := l.check(cfg)
	var owners []*Acquisition
	var writer *session.Seat
	if err == nil && ownerOf(ctx) != nil {
		owners, writer, err = l.standing(ctx)
	}
	if err == nil && writer != nil {
		// The create also contains the path of the writer's node.
		if size := l.size + len(cfg.data) + len(c.chroot) + len(l.path); size+overhead > session.MaxRequest {
			err = l.tooLarge(cfg, size)
		}
	}

	// The acquisition re-enters the lock, takes its turn under a cached node, or queues
	// up with a node of its own. Even one that fails needs an actor, which reports that.
	drive := actors.Config{ID: a.id, Path: l.path, Owner: (*ownerOfActor)(a), House: house}
	if l.members != nil {
		drive.Members = func() []events.Member { return a.seat.Members() }
	}
	again := false
	if err == nil {
		for _, owner := range owners {
			if a.actor = owner.actor.Admit(drive); a.actor != nil {
				a.seat, again = owner.seat, true
				break
			}
		}
		if !again && l.cached != nil && len(cfg.data) <= mostCachedData {
			a.actor = l.turn(drive, cfg)
		}
	}
	if a.actor == nil {
		a.seat = l.seat(cfg, writer)
		a.actor = actors.NewLock(drive, l.rule, a.seat)
	}

	// Once live has the acquisition, Shutdown waits for its end. So whatever can fail
	// without a request must fail before Start.
	if cfg.feed != nil && !a.actor.Join(cfg.feed) {
		err = cmp.Or(err, ErrClosed)
	}
	if err == nil {
		err = c.live.enter(a)
	}
	if err != nil {
		a.actor.Fail(err)
		return a
	}
	// The acquisition's node would queue up after an idle node that this process keeps
	// for a cached lock.
	if !again && a.seat != nil && c.caching.Load() {
		l.evictCached() //nolint:contextcheck // it may start a watch, which lasts as long as the lock is held
	}
	a.actor.Start(ctx, cfg.maxWait, actors.Want{
		Try: cfg.try, Downgrade: writer != nil, Keep: cfg.keep, Strict: c.cfg.LossOnSuspend, Detect: l.cfg.detect,
	})
	if cfg.feed != nil && a.isDone() {
		c.live.leave(a) // the group was closed and released it before it entered
	}
	return a
}

// seat returns the seat of an acquisition. If in is a writer's seat, the new one takes
// its place.
func (l *Lock) seat(cfg acquireConfig, in *session.Seat) *session.Seat {
	semaphore, _ := l.rule.(recipes.Semaphore)
	place := session.Place{
		Dir: l.path, Kind: l.rule.Kind(), Data: cfg.data, ACL: l.cfg.acl, Marks: l.marks, In: in,
		Try: cfg.try, Delay: l.cfg.delay, Size: semaphore.Size, Permits: semaphore.Permits,
	}
	if m := l.members; m != nil && l.err == nil {
		place.Members = m.places()
	}
	return l.c.session.Seat(place)
}

// wrong returns why the handle is invalid, or nil.
func (l *Lock) wrong() error {
	if err := l.c.checkPath(l.path); err != nil {
		return err
	}
	if l.path == "/" && recipes.Single(l.rule) {
		return fmt.Errorf("%w: / cannot be the node of a lock", ErrPath)
	}
	if err := l.checkOptions(); err != nil {
		return err
	}
	if l.path == "/" && l.cfg.detect {
		return fmt.Errorf("%w: a lock at / cannot report crashes, because its record would be next to /",
			ErrPath)
	}
	return nil
}

// check returns why a call must fail before a request is sent, or nil.
func (l *Lock) check(cfg acquireConfig) error {
	if err := cmp.Or(l.err, l.unfit); err != nil {
		return err
	}
	size := l.size + l.nodes*len(cfg.data)
	switch {
	case len(cfg.data) > 0 && session.Reserved(cfg.data):
		return errReserved(cfg.data, l.path)
	case size+overhead > session.MaxRequest:
		return l.tooLarge(cfg, size)
	case cfg.bounded && cfg.maxWait <= 0:
		return ErrTimeout
	case cfg.permits != nil && !l.kind.permits:
		return fmt.Errorf("%w: %s has no permits: %s", errInvalidKind, l.kind.name, l.path)
	case l.kind.check != nil:
		return l.kind.check(l, cfg, size)
	default:
		return nil
	}
}

// tooLarge returns the error for a request that is larger than servers accept. They would
// drop the connection, again at each retry.
func (l *Lock) tooLarge(cfg acquireConfig, size int) error {
	if m := l.members; m != nil {
		return fmt.Errorf("%w: %d locks in one request of %d bytes", ErrTooLarge, len(m.locks), size)
	}
	return fmt.Errorf("%w: %d bytes of data and %d of access control for %s",
		ErrTooLarge, len(cfg.data), session.SizeOfACL(l.acl()), l.path)
}

// checkPath returns why a lock's path is invalid, or nil.
func (c *Coordinator) checkPath(path string) error {
	full := c.chroot + path
	if len(full)+overhead > session.MaxRequest { // first, because the other errors repeat the path
		return fmt.Errorf("%w: %w: a path of %d bytes", ErrPath, ErrTooLarge, len(full))
	}
	if err := session.ValidatePath(path); err != nil {
		return err
	}
	if full == systemTree || strings.HasPrefix(full, systemTree+"/") {
		return fmt.Errorf("%w: %s is reserved by the servers", ErrPath, full)
	}
	return nil
}

// acl returns the access control list of the lock's nodes, or, for a multi-lock, that of
// the first member.
func (l *Lock) acl() []zk.ACL {
	switch {
	case l.members != nil && len(l.members.locks) > 0:
		return l.members.locks[0].acl()
	case l.cfg.acl != nil:
		return l.cfg.acl
	default:
		return l.c.cfg.ACL
	}
}

// errReserved returns the error for data that would be mistaken for a revocation request.
func errReserved(data []byte, path string) error {
	return fmt.Errorf("%w: %.20q for %s", ErrData, data, path)
}
