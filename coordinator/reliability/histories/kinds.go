package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// lockKind is a kind of lock. The last component of the path tells it.
type lockKind uint8

const (
	mutex lockKind = iota + 1
	readWrite
	semaphore
	unfair
	election
	cached
)

// kindAt returns the kind of the lock at the path.
func kindAt(lock string) lockKind {
	switch path.Base(lock) {
	case "rw":
		return readWrite
	case "permits":
		return semaphore
	case "task":
		return unfair
	case "leader":
		return election
	case "cached":
		return cached
	default:
		return mutex
	}
}

// acquirer is a handle of any kind.
type acquirer interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
}

// handle returns a handle for the operation, and chooses what the operation asks for.
func (w *worker) handle(op *operation) acquirer {
	switch kindAt(op.Path) {
	case semaphore:
		op.Permits = 1 + w.random.IntN(mostPermits)
		return bulk{w.coordinator.Semaphore(op.Path, mostPermits, w.marks...), op.Permits}
	case unfair:
		return w.coordinator.Unfair(op.Path)
	case election:
		return campaign{w.coordinator.Election(op.Path, w.marks...)}
	case cached: // or a contender of the same session with a node of its own
		if w.random.IntN(8) == 0 {
			return w.member(op)
		}
		return w.coordinator.Mutex(op.Path, append(slices.Clip(w.marks), coordinator.Cached(w.cache...))...)
	default:
		return w.member(op)
	}
}

// member is handle for a lock that may be a member of a multi-lock.
func (w *worker) member(op *operation) *coordinator.Lock {
	if kindAt(op.Path) != readWrite {
		return w.coordinator.Mutex(op.Path, w.marks...)
	}
	if op.Shares = w.random.IntN(2) == 0; op.Shares {
		return w.coordinator.ReadWrite(op.Path, w.marks...).Read()
	}
	return w.coordinator.ReadWrite(op.Path, w.marks...).Write()
}

// joins tells whether the lock at the path may be in a multi-lock. A cached lock may, without its cache.
func joins(lock string) bool {
	kind := kindAt(lock)
	return kind == mutex || kind == readWrite || kind == cached
}

// campaign has candidates acquire.
type campaign struct{ *coordinator.Election }

func (c campaign) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return c.Campaign(ctx, options...)
}

// mostPermits is the size of the semaphore.
const mostPermits = 3

// bulk asks for several permits.
type bulk struct {
	*coordinator.Semaphore
	permits int
}

func (b bulk) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return b.Semaphore.Acquire(ctx, append(options, coordinator.WithPermits(b.permits))...)
}

// A multi-lock is held for all of its members at once: each of its operations is in the history of every member, with the same
// token. So the model of each lock sees whether its member was not held.

// mostMembers is the greatest number of members.
const mostMembers = 3

// choose returns a handle for the lock of the tenure: alone, or in a multi-lock.
func (w *worker) choose(t *tenure) acquirer {
	if !joins(t.op.Path) || w.random.IntN(4) != 0 {
		return w.handle(&t.op)
	}
	locks := []*coordinator.Lock{w.member(&t.op)}
	for _, i := range w.random.Perm(len(w.paths)) {
		op := operation{Path: w.paths[i]}
		if op.Path == t.op.Path || !joins(op.Path) || len(locks) == mostMembers {
			continue
		}
		locks = append(locks, w.member(&op))
		t.others = append(t.others, op)
	}
	if t.op.With = len(t.others); t.op.With == 0 {
		return w.handle(&t.op)
	}
	return w.coordinator.Multi(locks...)
}

// parts returns the tenures of the single locks that it consists of, its own path first.
func (t *tenure) parts() []*tenure {
	all := []*tenure{t}
	if len(t.others) > 0 {
		all[0] = &tenure{history: t.history, op: t.op}
	}
	for _, other := range t.others {
		op := t.op
		op.Path, op.Shares = other.Path, other.Shares
		all = append(all, &tenure{history: t.history, op: op})
	}
	return all
}

// add notes an operation in the history of each lock.
func (t *tenure) add(op operation) {
	t.history.add(op)
	for _, other := range t.others {
		op.Path, op.Shares = other.Path, other.Shares
		t.history.add(op)
	}
}

// isOf tells whether the Grant is for all members, and for nothing else.
func (t *tenure) isOf(grant events.Grant) bool {
	if len(t.others) == 0 {
		return grant.Path == t.op.Path && grant.Members == nil
	}
	return slices.EqualFunc(grant.Members, t.parts(), func(m events.Member, part *tenure) bool { return m.Path == part.op.Path })
}

// revoke asks for a lock of which all handles are revocable, and waits for at most patience.
func (h *history) revoke(t *testing.T, c *coordinator.Coordinator, path string, grace, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var held []operation
	h.mu.Lock()
	for _, tenure := range h.tenures[path] {
		for _, part := range tenure.parts() {
			if part.op.Path == path {
				held = append(held, part.op)
			}
		}
	}
	h.mu.Unlock()
	ask := operation{Path: path, Kind: kindAsk, Call: h.now()}
	err := c.Revoke(ctx, path, grace)
	h.add(ask)
	switch {
	case err == nil:
		for _, op := range held {
			op.Kind, op.Call = kindGone, h.now()
			h.add(op)
		}
	case errors.Is(err, coordinator.ErrNotHeld), errors.Is(err, coordinator.ErrClosed), ctx.Err() != nil:
	default:
		t.Errorf("Revoke of %s: %v", path, err)
	}
}

// pickRevocable returns one of the paths, except that of an unfair lock, which cannot be revoked.
func pickRevocable(random *rand.Rand, paths []string) string {
	for {
		if path := paths[random.IntN(len(paths))]; kindAt(path) != unfair {
			return path
		}
	}
}

// goOnReading has a writer become a reader. The write lock is given back when the reader holds, or cannot.
func (a *attempt) goOnReading() {
	w := a.worker
	w.round++
	reader := w.history.begin(w.number, w.round, a.tenure.op.Path)
	reader.op.Shares, reader.op.From = true, a.tenure.op.Round
	// Its wait does not end with the write lock.
	writer := context.WithoutCancel(a.lock.Context(context.Background()))
	reader.lock = w.coordinator.ReadWrite(reader.op.Path, w.marks...).Read().Acquire(writer)
	giveUp := time.After(w.patience)
	var over <-chan time.Time
	for {
		select {
		case grant := <-reader.lock.Granted():
			if sameNumber(grant.Node, a.node) {
				reader.op.Writer = a.tenure.op.Token
			}
			reader.granted(grant)
			a.tenure.release()
			giveUp, over = nil, time.After(w.upTo(w.pace))
			if reader.valid() {
				w.use(reader)
			}
		case <-over:
			if reader.valid() {
				w.use(reader)
			}
			reader.release()
		case <-giveUp: // the writer has nothing to give any more
			a.tenure.release()
			reader.release()
		case lost := <-a.lock.Lost():
			a.tenure.lost(lost)
		case lost := <-reader.lock.Lost():
			reader.lost(lost)
		case <-reader.lock.Done():
			reader.done()
			a.tenure.release()
			return
		}
	}
}

// sameNumber tells whether two nodes of one directory have the same sequence number.
func sameNumber(a, b string) bool {
	x, ok := events.ParseName(path.Base(a))
	y, too := events.ParseName(path.Base(b))
	return ok && too && x.Seq == y.Seq
}
