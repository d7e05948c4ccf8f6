package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// This file is about what observers of a path have in common: all of them in a session
// share a [follower].

// subject is what a follower reads, in one goroutine, and again when it may have changed.
type subject[W any] interface {
	// read returns the present word, with a watch on what may change it.
	read(ctx context.Context, c *client) (W, error)
	// leave ends the subscriptions, for good.
	leave()
}

// followers are a session's followers of one sort. W is what they read, and T is what an
// observer receives. The mutex also guards the followers and the observers.
type followers[W, T any] struct {
	session *Session
	what    string            // for the log
	same    func(a, b W) bool // whether two words say the same
	subject func(*watcher, QueuePlace) subject[W]
	paced   bool // at most one reading in a probe interval

	mu  sync.Mutex
	all map[QueuePlace]*follower[W, T]
}

// observer is one observer. It may follow several places, and then receives their words
// together.
type observer[W, T any] struct {
	words  chan T // size 1; only tell writes there
	show   func(seen []*W) T
	forget func() bool // stops waiting for the end of its context
	at     []*follower[W, T]

	seen       []*W // by place; nil: nothing yet
	last, read []*W // last is what was seen at the latest word; read, at the one before, if that is known to have been read
}

// observe returns a channel with one place, in which a later word replaces one that was
// not read. It is closed when ctx ends, when the session is closed, and when a server
// refuses the reading of a place. The function show makes the observer's own word.
func (f *followers[W, T]) observe(ctx context.Context, show func(seen []*W) T, places ...QueuePlace) <-chan T {
	o := &observer[W, T]{words: make(chan T, 1), show: show, seen: make([]*W, len(places))}
	f.mu.Lock()
	defer f.mu.Unlock()
	o.forget = context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.end(o)
	})
	for i, at := range places {
		w := f.all[at]
		if w == nil && ctx.Err() == nil {
			w = f.follow(at) //nolint:contextcheck // it goes on for as long as there are observers
		}
		if w == nil {
			f.end(o)
			break
		}
		o.at = append(o.at, w)
		w.observers = append(w.observers, observation[W, T]{o, i})
		if w.word != nil {
			f.tell(o, i, w.word)
		}
	}
	return o.words
}

// tell puts the word into the place of the one before it. Exception: if the word before
// was not read, and the last word that was read is the same, it puts none, so nothing is
// read twice.
func (f *followers[W, T]) tell(o *observer[W, T], i int, word *W) {
	o.seen[i] = word
	same := func(a, b *W) bool { return f.same(*a, *b) }
	if slices.Contains(o.seen, nil) || slices.EqualFunc(o.seen, o.last, same) {
		return
	}
	merged := false
	select {
	case <-o.words:
		merged = true
	default:
		o.read = o.last
	}
	o.last = slices.Clone(o.seen)
	if !merged || !slices.EqualFunc(o.read, o.last, same) {
		o.words <- o.show(o.last)
	}
}

// end closes the channel of an observer, and ends the followers of which it was the last
// one. A watch that is armed stays until it fires, because a client cannot drop any. The
// next follower of the same place finds it armed.
func (f *followers[W, T]) end(o *observer[W, T]) {
	if o.seen == nil {
		return // it has ended before
	}
	o.forget()
	close(o.words)
	o.seen = nil
	for _, w := range o.at {
		w.observers = slices.DeleteFunc(w.observers, func(of observation[W, T]) bool { return of.observer == o })
		if len(w.observers) == 0 {
			w.end()
			w.remove()
		}
	}
}

// follower follows a place for its observers, in one goroutine.
type follower[W, T any] struct {
	*watcher
	of      *followers[W, T]
	at      QueuePlace
	subject subject[W]
	end     context.CancelFunc

	// The mutex of the followers guards these.
	observers []observation[W, T]
	word      *W // nil: there is none yet
}

// observation is an observer, and which of its places is the follower's.
type observation[W, T any] struct {
	observer *observer[W, T]
	place    int
}

// follow starts a follower. It returns nil if nothing is left of the session. It is
// called with the mutex held.
func (f *followers[W, T]) follow(at QueuePlace) *follower[W, T] {
	w := &follower[W, T]{watcher: newWatcher(f.session), of: f, at: at}
	w.subject = f.subject(w.watcher, at)
	var ctx context.Context
	ctx, w.end = context.WithCancel(context.Background())
	if !f.session.group.Go(func() { w.run(ctx) }) {
		w.end()
		return nil
	}
	if f.all == nil {
		f.all = map[QueuePlace]*follower[W, T]{}
	}
	f.all[at] = w
	return w
}

// run returns when ctx has ended, which says that there is no observer any more, when the
// session is closed, and when a server refuses the reading.
func (w *follower[W, T]) run(ctx context.Context) {
	defer w.over()
	for again := true; again; {
		var began time.Time
		word, err := call(ctx, w.session, terms{urgent: observing}, func(c *client) (W, error) {
			began = time.Now()
			return w.subject.read(ctx, c)
		})
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return
		}
		if err != nil {
			w.session.cfg.Logger.Warn(w.of.what, zap.String("path", w.at.Path), zap.Error(err))
			return
		}
		w.tell(&word)
		again = w.wait(ctx, nil) && w.pace(ctx, began)
	}
}

// pace waits until the next reading may begin, or the session is closed. It returns false
// if ctx ends first.
func (w *follower[W, T]) pace(ctx context.Context, began time.Time) bool {
	if !w.of.paced {
		return true
	}
	next := time.NewTimer(time.Until(began.Add(w.session.Interval())))
	defer next.Stop()
	for w.session.State() != Closed {
		select {
		case <-next.C:
			return true
		case <-w.session.nextConnection(): // or the session is closed
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// tell passes on what was read.
func (w *follower[W, T]) tell(word *W) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.word = word
	for _, o := range w.observers {
		w.of.tell(o.observer, o.place, word)
	}
}

// over ends the observers.
func (w *follower[W, T]) over() {
	w.subject.leave()
	w.end()
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, o := range slices.Clone(w.observers) {
		w.of.end(o.observer)
	}
	w.remove()
}

// remove takes the follower out, unless another one has taken its place. It is called
// with the mutex held.
func (w *follower[W, T]) remove() {
	if w.of.all[w.at] == w {
		delete(w.of.all, w.at)
	}
}
