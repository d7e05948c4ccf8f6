package board

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Polling: ZooKeeper has no watch for a whole tree, so the poller searches for locks
// again and again. A lock that was found is watched, see [Board.watch].

const (
	// patience bounds one look, for example without a connection.
	patience = 10 * time.Second
	// stale is the age from which the page shows how old its view of an unwatched lock
	// is.
	stale = 5 * time.Second
)

// poll walks through the locks.
type poll func(context.Context) iter.Seq2[events.LockInfo, error]

// sighting is what a look or a watch sees of a lock.
type sighting struct {
	info  events.LockInfo
	err   error          // why the lock cannot be read
	bytes map[string]int // the full length of truncated data, by contender's node
	old   time.Time      // when the lock was read, if that is long ago
}

// sight keeps what is shown of a lock: the beginning of the data, and times that JSON can
// represent.
func sight(info events.LockInfo, err error) sighting {
	f := sighting{info: info, err: err}
	for i := range info.Contenders {
		c := &info.Contenders[i]
		if year := c.Since.UTC().Year(); year < 0 || year > 9999 { // the servers' clock may be that wrong
			c.Since = time.Unix(0, 0)
		}
		if len(c.Data) <= mostData {
			continue
		}
		if f.bytes == nil {
			f.bytes = map[string]int{}
		}
		f.bytes[c.Node] = len(c.Data)
		c.Data = []byte(cut(c.Data)) // a copy, without the rest of the data
	}
	return f
}

// walk returns the locks, and an error if it did not reach the end.
func (p poll) walk(ctx context.Context) (found []sighting, _ error) {
	for info, err := range p(ctx) {
		if err != nil && (ctx.Err() != nil || errors.Is(err, coordinator.ErrClosed) || errors.Is(err, coordinator.ErrPath)) {
			return nil, err
		}
		found = append(found, sight(info, err))
	}
	return found, nil
}

// run searches for locks again and again until ctx ends, and watches the locks that it
// finds. The first look watches nothing: a program that reads queues.json once needs no
// watches.
func (b *Board) run(ctx context.Context) {
	b.turn.Lock()
	defer b.turn.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var crew sync.WaitGroup
	defer func() {
		b.tell(func(s *state) {
			clear(s.watched)
			s.cut, s.back = time.Time{}, time.Time{} // nobody listens from now on
		})
	}()
	defer crew.Wait()
	defer cancel()
	crew.Go(func() { b.listen(ctx) })
	next := time.NewTimer(time.Until(b.due))
	defer next.Stop()
	for looks := 0; ; looks++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		found, err := b.look(ctx)
		switch {
		case errors.Is(err, coordinator.ErrClosed):
			b.end()
			return
		case ctx.Err() != nil:
			return
		}
		ended := time.Now()
		own := b.c.SessionID()
		b.due = due(began, ended, b.interval)
		b.tell(func(s *state) {
			s.pace = b.due.Sub(began)
			if err != nil {
				s.looked, s.failed = ended, err.Error()
				return
			}
			s.apply(found, own, began, ended)
		})
		if looks > 0 && err == nil {
			b.watchAll(ctx, &crew, found)
		}
		next.Reset(time.Until(b.due))
	}
}

// look is one walk. It gives up after patience.
func (b *Board) look(ctx context.Context) ([]sighting, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("ZooKeeper does not answer"))
	defer cancel()
	ctx = session.WithWatched(session.WithProgress(ctx, b.searched), b.watches)
	found, err := b.poll.walk(ctx)
	now := time.Now()
	for i, f := range found {
		if seen := f.info.Seen; !seen.IsZero() && now.Sub(seen) > stale {
			found[i].old = seen
		}
	}
	return found, err
}

// searched records how far the search for locks has come. The end of the look notifies
// the pages.
func (b *Board) searched(p session.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.searched(p)
}

// due returns when the next look may begin: looks fill at most half of the time.
func due(began, ended time.Time, interval time.Duration) time.Time {
	next := began.Add(interval)
	if rested := ended.Add(ended.Sub(began)); rested.After(next) {
		return rested
	}
	return next
}

// listen puts the coordinator's own events into the timeline until ctx or the coordinator
// ends: those of locks below the root, and those of the session, which have no path. The
// events of a multi-lock have the path of its first member, which may be elsewhere. From
// the Grant on, they are shown at the first member below the root.
func (b *Board) listen(ctx context.Context) {
	below := strings.TrimSuffix(b.root, "/") + "/"
	inside := func(path string) bool { return strings.HasPrefix(path+"/", below) }
	members := map[uint64]string{} // of granted multi-locks: the first one inside, by ID
	for event := range b.c.Events(ctx) {
		m, ok := ownMoment(event)
		id := event.AcquisitionID()
		if grant, is := event.(events.Grant); is {
			shown := func(member events.Member) bool { return inside(member.Path) }
			if i := slices.IndexFunc(grant.Members, shown); i >= 0 {
				members[id] = grant.Members[i].Path
			}
		}
		m.Path = cmp.Or(members[id], m.Path)
		if _, is := event.(events.Ended); is {
			delete(members, id)
		}
		if ok && (m.Path == "" || inside(m.Path)) {
			now := time.Now()
			m.At = now.UnixMilli()
			b.tell(func(s *state) {
				s.noteOutage(event, now)
				s.add(m)
			})
		}
	}
	if ctx.Err() == nil {
		b.end()
	}
}
