package session

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about observers of elections, candidates or not. All observers of one election share a [leaderWatch].

// Observe implements [Session.Observe].
func (e *elections) Observe(ctx context.Context, dir string) <-chan events.Leader {
	o := &subscription{words: make(chan events.Leader, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.watched[dir]
	if w == nil && ctx.Err() == nil {
		w = e.follow(dir) //nolint:contextcheck // it goes on for as long as there are observers
	}
	if w == nil {
		close(o.words)
		return o.words
	}
	w.subscriptions = append(w.subscriptions, o)
	if w.told {
		o.tell(w.word)
	}
	o.forget = context.AfterFunc(ctx, func() { w.unsubscribe(o) })
	return o.words
}

// elections are the elections that a session's observers follow. The mutex also guards the leader watches.
type elections struct {
	session *Session

	mu      sync.Mutex
	watched map[string]*leaderWatch // by path, without the chroot
}

// subscription is one observer. The mutex of the elections guards it.
type subscription struct {
	words  chan events.Leader
	forget func() bool // stops waiting for the end of its context

	last, read *events.Leader // last is the latest word; read is the one before, if it is known to have been read
}

// tell puts the word into the place of the one before it. Exception: if the word before was not read, and the last word that was read is
// the same, it puts none, so nothing is read twice. Only tell writes there, so there is room.
func (o *subscription) tell(l events.Leader) {
	merged := false
	select {
	case <-o.words:
		merged = true
	default:
		o.read = o.last
	}
	if merged && o.read != nil && sameWord(*o.read, l) {
		o.last = o.read
		return
	}
	o.last = &l
	own := l
	own.Data = bytes.Clone(l.Data) // the reader's
	o.words <- own
}

// sameWord reports whether the two say the same.
func sameWord(a, b events.Leader) bool {
	return a.Node == b.Node && a.Token == b.Token && bytes.Equal(a.Data, b.Data)
}

// leaderWatch follows the leader of an election, in one goroutine, for all its observers.
//
// The first candidate leads, and no other one comes first before its node is gone. So that node is watched, and nothing else: a
// candidate that joins behind it, or leaves there, wakes no observer. If there is no candidate the children of the directory are
// watched. If there is no directory its creation is watched.
//
// What is told is in order. Within a session readings do not go back, and the first reading of the next session is not behind them
// either: a server makes a session by a transaction, and has executed all before it when it answers.
type leaderWatch struct {
	*watcher
	of        *elections
	dir, name string // with the chroot and without it
	end       context.CancelFunc

	// The mutex of the elections guards these. The goroutine alone writes the word.
	subscriptions []*subscription
	told          bool // there is a word:
	word          events.Leader
}

// follow starts a leader watch. It returns nil if nothing is left of the session. It is called with the mutex held.
func (e *elections) follow(dir string) *leaderWatch {
	w := &leaderWatch{watcher: newWatcher(e.session), of: e, dir: under(e.session.chroot, dir), name: dir}
	var ctx context.Context
	ctx, w.end = context.WithCancel(context.Background())
	if !e.session.group.Go(func() { w.follow(ctx) }) {
		w.end()
		return nil
	}
	e.watched[dir] = w
	return w
}

// follow returns when ctx has ended, which says that there is no observer any more, when the session is closed, and when a server
// refuses the reading.
func (w *leaderWatch) follow(ctx context.Context) {
	defer w.over()
	for again := true; again; again = w.wait(ctx, nil) {
		leader, err := call(ctx, w.session, terms{urgent: observing}, w.read)
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return
		}
		if err != nil {
			w.session.cfg.Logger.Warn("cannot read the election's leader", zap.String("path", w.name), zap.Error(err))
			return
		}
		w.tell(leader)
	}
}

// tell passes on what was seen, if it differs from the last time.
func (w *leaderWatch) tell(word events.Leader) {
	wish, _ := read(word.Data)
	word.Data = UserData(word.Node, word.Data)
	if wish.stands && !wish.bounded && word.Node == w.word.Node && word.Token == w.word.Token {
		word.Data = w.word.Data // the wish has taken the place of the leader's word
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.told && sameWord(word, w.word) {
		return
	}
	w.told, w.word = true, word
	for _, o := range w.subscriptions {
		o.tell(word)
	}
}

// unsubscribe ends a subscription, and with the last one the leader watch. A watch that is armed stays until it fires, because a client
// cannot drop any. The next leader watch of the same election finds it armed.
func (w *leaderWatch) unsubscribe(o *subscription) {
	e := w.of
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(w.subscriptions, o)
	if i < 0 {
		return
	}
	close(o.words)
	w.subscriptions = slices.Delete(w.subscriptions, i, i+1)
	if len(w.subscriptions) == 0 {
		w.end()
		w.remove()
	}
}

// over tells the observers that nothing more will come.
func (w *leaderWatch) over() {
	w.leave()
	w.end()
	e := w.of
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range w.subscriptions {
		o.forget()
		close(o.words)
	}
	w.subscriptions = nil
	w.remove()
}

// remove takes the leader watch out, unless another one has taken its place. It is called with the mutex held.
func (w *leaderWatch) remove() {
	if all := w.of.watched; all[w.name] == w {
		delete(all, w.name)
	}
}

// node returns the leader's path at the server, if it is known to lead.
func (w *leaderWatch) node() string {
	if w.word.Node == "" {
		return ""
	}
	return path.Join(w.dir, path.Base(w.word.Node))
}
