package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Get reads a node on the lock's session while the lock is held. It shows what every
// earlier holder wrote, even on a server that lags. A missing node is [zk.ErrNoNode];
// other errors are those of Txn.
func (a *Acquisition) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	n, err := a.read(ctx, path)
	if err == nil {
		err = n.Err()
	}
	return n.Data, n.Stat, err
}

func (a *Acquisition) read(ctx context.Context, path string) (session.Node, error) {
	seat, grant, epoch, done, err := a.use()
	if err != nil {
		return session.Node{}, err
	}
	n, err := seat.Read(ctx, epoch, path)
	done(false)
	switch over := errors.Is(err, session.ErrEpochOver); {
	case (over || err == nil) && !a.actor.Holding():
		return session.Node{}, a.notHeld(grant)
	case over:
		return session.Node{}, &LostError{Path: a.lock.path, Reason: events.ReasonSessionExpired}
	default:
		return n, err
	}
}

// Update sets a node's data to what f returns, or creates the node with the lock's ACL.
// It writes only while the lock is held, and only if nothing else has written since f got
// old; otherwise f runs again. If f fails or returns old, nothing is written. After
// [ErrOutcomeUnknown] the write may have been executed; after any other error it was not.
func (a *Acquisition) Update(ctx context.Context, path string,
	f func(old []byte, exists bool) ([]byte, error)) error {
	if f == nil {
		return fmt.Errorf("%w: Update without a function: %s", ErrInvalid, path)
	}
	if err := session.ValidateNew(a.lock.c.chroot+path, false); err != nil {
		return err
	}
	w := write{shared: a.lock.isShared()}
	beside := a.lock.c.updates.enter(path)
	defer a.lock.c.updates.leave(path)
	for {
		now, err := a.read(ctx, path)
		if err != nil {
			return w.failed(err)
		}
		w.shared = w.shared || beside.several.Load()
		switch w.fate(now) {
		case fateDone:
			return nil
		case fateOpen:
			return w.failed(fmt.Errorf("zkgrant: %s has changed since", path))
		case fateUnchanged:
			w.before = now // another client may have created parents
		case fateNone:
			var old []byte
			old, w.before = bytes.Clone(now.Data), now
			data, err := f(old, now.Stat != nil)
			if err != nil {
				return err
			}
			if now.Stat != nil && bytes.Equal(data, now.Data) || now.Stat == nil && data == nil {
				return nil
			}
			w.data = bytes.Clone(data)
		}
		_, err = a.Txn(ctx, w.before.Replace(path, w.data, a.lock.acl())...)
		lost := (*LostError)(nil) // its cause is a missing node as well
		switch refused := session.IsOutdated(err) && !errors.As(err, &lost); {
		case err == nil:
			return nil
		case errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil:
			w.unknown = err
		case !refused:
			return w.failed(err)
		}
	}
}

// isShared reports whether the lock, or a member of it, may have several holders.
func (l *Lock) isShared() bool {
	if m := l.members; m != nil {
		return slices.ContainsFunc(m.locks, (*Lock).isShared)
	}
	return !l.rule.Exclusive() || l.permits() > 0
}

// write is a write of Update, which may take several tries.
type write struct {
	before  session.Node // what f received
	data    []byte       // what f returned
	unknown error        // of an earlier try that may have been executed; nil: there was none
	shared  bool         // other holders, or other goroutines, may write the same data
}

// updates has the paths at which an Update is running, because concurrent ones of one
// holder may write the same data. The zero value is ready to use.
type updates struct {
	mu    sync.Mutex // guards all fields, and running of each update
	paths map[string]*update
}

// update counts the overlapping calls of Update at a path.
type update struct {
	running int
	several atomic.Bool // there was an overlapping call
}

func (u *updates) enter(path string) *update {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.paths[path]
	if at == nil {
		at = &update{}
		if u.paths == nil {
			u.paths = map[string]*update{}
		}
		u.paths[path] = at
	}
	if at.running++; at.running > 1 {
		at.several.Store(true)
	}
	return at
}

func (u *updates) leave(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.paths[path]; at.running > 1 {
		at.running--
	} else {
		delete(u.paths, path)
	}
}

// fate is what a read shows about earlier tries.
type fate uint8

const (
	fateNone      fate = iota // there was none, or all were refused: call f again
	fateUnchanged             // none was executed so far: send the same write again
	fateDone                  // one was executed
	fateOpen                  // one may have been executed, and nothing shows whether it was
)

// fate judges the earlier tries. A write to the version that f received is executed at
// most once, however often it is sent and however late it arrives, because it changes the
// version. So the same write may be sent again, but f must not be called with its own
// result.
func (w write) fate(now session.Node) fate {
	was, is := w.before.Stat, now.Stat
	switch {
	case w.unknown == nil:
		return fateNone
	case is == nil && was == nil && !w.shared: // else another holder may have deleted what was created
		return fateUnchanged
	case is == nil || was != nil && was.Czxid != is.Czxid:
		return fateOpen
	case was != nil && was.Version == is.Version:
		return fateUnchanged
	case w.shared || !bytes.Equal(now.Data, w.data):
		return fateOpen
	case was == nil && is.Version == 0, was != nil && is.Version == was.Version+1:
		return fateDone
	default:
		return fateOpen
	}
}

// failed returns the error of a write that ends with err.
func (w write) failed(err error) error {
	if w.unknown == nil || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
