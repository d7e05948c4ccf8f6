package board

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// mostWatched bounds how many locks are watched: each takes two goroutines here and a
// watch on a server. Each look reads the other locks.
const mostWatched = 1000

// watched is a lock that is watched. What its watch reports takes precedence over what
// looks see: it is newer, or a newer report will follow.
type watched struct {
	end   context.CancelFunc
	heard time.Time // when the watch last reported; zero: not yet
	asOf  time.Time // that, or when a later look read the data
	seen  sighting  // the watch's last report
	over  bool      // the path cannot be watched, so the looks show the lock
}

// good reports whether the watch has the current queue. A nil watch has none.
func (w *watched) good() bool { return w != nil && !w.over && !w.asOf.IsZero() }

// watchAll watches the locks that were found but are not watched yet.
func (b *Board) watchAll(ctx context.Context, crew *sync.WaitGroup, found []sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range found {
		at := placeOf(f.info)
		if f.err != nil || b.state.watched[at] != nil || len(b.state.watched) >= b.most {
			continue
		}
		ctx, end := context.WithCancel(ctx)
		w := &watched{end: end}
		b.state.watched[at] = w
		crew.Go(func() {
			defer end()
			b.watch(ctx, f.info, w)
			if ctx.Err() == nil {
				b.tell(func(*state) { w.over = true })
			}
		})
	}
}

// watch reports each change of the lock's queue to the pages until ctx ends, or until the
// path cannot be read. The first report costs a listing and each contender's data, so it
// waits for as many turns.
func (b *Board) watch(ctx context.Context, info events.LockInfo, w *watched) {
	for range 1 + len(info.Contenders) {
		if session.AwaitRead(ctx) != nil {
			return
		}
	}
	watch := b.c.ReadWrite(info.Path).Watch // shows a mutex's nodes, too
	switch info.Kind {
	case events.LockSemaphore:
		watch = b.c.Semaphore(info.Path, 1).Watch
	case events.LockUnfair:
		watch = b.c.Unfair(info.Path).Watch
	default:
	}
	for queue := range watch(ctx) {
		now, own := time.Now(), b.c.SessionID()
		b.tell(func(s *state) { s.hear(w, info, queue, own, now) })
	}
}

// watches reports whether the locks at a path are watched.
func (b *Board) watches(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, permits := b.state.watched[place{path, false}], b.state.watched[place{path, true}]
	all := (queue == nil || queue.good()) && (permits == nil || permits.good())
	return all && (queue != nil || permits != nil)
}

// hear handles a report of a watch.
func (s *state) hear(w *watched, info events.LockInfo, queue []events.Contender, own int64, now time.Time) {
	at := placeOf(info)
	if s.watched[at] != w {
		return // ended meanwhile
	}
	if k := s.locks[at]; k != nil {
		info = k.info // its kind and size may have changed since
	}
	info.Contenders = queue
	f := sight(info, nil)
	if info.Kind != events.LockUnfair { // the watch of an unfair lock reads the data again
		f.carry(w.seen)
	}
	blind := s.missedBy(w, now)
	w.heard, w.asOf, w.seen = now, now, f
	s.mine[own], s.answer = true, now
	s.version++
	switch k := s.locks[at]; {
	case !f.empty():
		if k = s.see(f, s.version, own, now, blind); !slices.Contains(s.order, k) {
			s.order = append(s.order, k)
		}
	case k != nil:
		s.order = slices.DeleteFunc(s.order, func(other *known) bool { return other == k })
		s.lose(at, s.version)
		if !blind {
			s.changed(at.path, k.info.Contenders, nil, now)
		}
	}
}

// missedBy reports whether a report of a watch may be about changes during a long outage:
// it is the first one after it. It may arrive before the event that ends the outage.
func (s *state) missedBy(w *watched, now time.Time) bool {
	end := cmp.Or(s.back, now)
	return !s.cut.IsZero() && end.Sub(s.cut) > patience && w.heard.Before(end) && now.Sub(end) < patience
}

// carry takes over the data of contenders that were seen before.
func (f *sighting) carry(from sighting) {
	// Copy, because pages may still be sent the old ones.
	f.info.Contenders, f.bytes = slices.Clone(f.info.Contenders), maps.Clone(f.bytes)
	data := map[identity]int{}
	for i, c := range from.info.Contenders {
		data[identityOf(c)] = i
	}
	for i, c := range f.info.Contenders {
		k, ok := data[identityOf(c)]
		if !ok {
			continue
		}
		f.info.Contenders[i].Data = from.info.Contenders[k].Data
		delete(f.bytes, c.Node)
		if n, ok := from.bytes[from.info.Contenders[k].Node]; ok {
			if f.bytes == nil {
				f.bytes = map[string]int{}
			}
			f.bytes[c.Node] = n
		}
	}
}

// empty reports whether there is nothing to show for the lock.
func (f *sighting) empty() bool { return len(f.info.Contenders) == 0 && f.info.Size == 0 }

// overlay replaces what a look has seen by what the watches report. It ends the watches
// of locks that are gone or cannot be read any more.
func (s *state) overlay(found []sighting) (all []sighting) {
	there := map[place]bool{}
	for _, f := range found {
		at := placeOf(f.info)
		w := s.watched[at]
		if there[at] = true; w != nil && f.err != nil {
			s.unwatch(at, w)
		} else if w.good() {
			if f.info.Seen.After(w.asOf) {
				w.asOf = f.info.Seen
				w.seen.carry(f) // a holder may have replaced its data
			}
			w.seen.info.Kind, w.seen.info.Size = f.info.Kind, f.info.Size
			if f = w.seen; f.empty() {
				continue
			}
		}
		all = append(all, f)
	}
	for at, w := range s.watched {
		switch {
		case there[at]:
		case w.good() && len(w.seen.info.Contenders) > 0: // they joined after the look
			w.seen.info.Size = 0
			all = append(all, w.seen)
		default:
			s.unwatch(at, w)
		}
	}
	return all
}

func (s *state) unwatch(at place, w *watched) {
	w.end()
	delete(s.watched, at)
}
