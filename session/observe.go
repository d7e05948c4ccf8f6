package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about observers of elections, candidates or not. All observers of one
// election share a [leaderWatch].

// Observe delivers the leader of the election at the path, and from then on each later
// leader, until ctx ends or the session is closed. Then the channel is closed. It is also
// closed if a server does not let the path or the leader's node be read. The channel has
// one place, in which a later word replaces one that was not read.
//
// What comes is in order, also beyond the end of a session. While there is no connection
// the last word stands, and nothing comes.
func (s *Session) Observe(ctx context.Context, dir string) <-chan events.Leader {
	o := &subscription{words: make(chan events.Leader, 1)}
	s.elections.mu.Lock()
	defer s.elections.mu.Unlock()
	w := s.elections.watched[dir]
	if w == nil && ctx.Err() == nil {
		w = s.watchLeader(dir) //nolint:contextcheck // it goes on for as long as there are observers
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

// elections are the elections that a session's observers follow. The mutex also guards
// the leader watches.
type elections struct {
	mu      sync.Mutex
	watched map[string]*leaderWatch // by path, without the chroot
}

// subscription is one observer. The mutex of the elections guards it.
type subscription struct {
	words  chan events.Leader
	forget func() bool // stops waiting for the end of its context

	last, read *events.Leader // last is the latest word; read is the one before, if it is known to have been read
}

// tell puts the word into the place of the one before it. Exception: if the word before
// was not read, and the last word that was read is the same, it puts none, so nothing is
// read twice. Only tell writes there, so there is room.
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
// The first candidate leads, and no other one comes first before its node is gone. So
// that node is watched, and nothing else: a candidate that joins behind it, or leaves
// there, wakes no observer. If there is no candidate the children of the directory are
// watched. If there is no directory its creation is watched.
//
// What is told is in order. Within a session readings do not go back, and the first
// reading of the next session is not behind them either: a server makes a session by a
// transaction, and has executed all before it when it answers.
type leaderWatch struct {
	*watcher
	dir, name string // with the chroot and without it
	end       context.CancelFunc

	// The mutex of the elections guards these. The goroutine alone writes the word.
	subscriptions []*subscription
	told          bool // there is a word:
	word          events.Leader
}

// watchLeader starts a leader watch. It returns nil if nothing is left of the session. It
// is called with the mutex held.
func (s *Session) watchLeader(dir string) *leaderWatch {
	w := &leaderWatch{watcher: newWatcher(s), dir: under(s.chroot, dir), name: dir}
	var ctx context.Context
	ctx, w.end = context.WithCancel(context.Background())
	if !s.group.Go(func() { w.follow(ctx) }) {
		w.end()
		return nil
	}
	s.elections.watched[dir] = w
	return w
}

// follow returns when ctx has ended, which says that there is no observer any more, when
// the session is closed, and when a server refuses the reading.
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

// read returns the leader, and has watched what may change that: the leader's node, or
// else the directory.
func (w *leaderWatch) read(c *client) (events.Leader, error) {
	gone := w.begin()
	if w.word.Node != "" && !gone {
		// The last leader still leads while its node stands, unless another node has its
		// name now, which need not lead.
		leader, err := w.candidate(c, path.Base(w.word.Node))
		if err == nil && leader.Token == w.word.Token || err != nil && !errors.Is(err, zk.ErrNoNode) {
			return leader, err
		}
	}
	var leader events.Leader
	for range reaped {
		// No watch while there is a candidate: the directory changes with each that
		// joins.
		children, stat, err := c.conn.Children(w.dir)
		if err == nil && leads(children) == "" {
			var dir snapshot
			dir, err = c.readW(ofChildren, w.dir, w)
			children, stat = dir.children, dir.stat
		}
		if errors.Is(err, zk.ErrNoNode) {
			if _, err := c.readW(ofAbsence, w.dir, w); errors.Is(err, zk.ErrNoNode) {
				return events.Leader{}, nil
			} else if err != nil {
				return events.Leader{}, err
			}
			continue // the directory was made meanwhile
		}
		first := leads(children)
		if err != nil || first == "" {
			return events.Leader{}, err
		}
		before := leader
		leader, err = w.candidate(c, first)
		// A name without a GUID can come again:
		//
		//  1. x is listed.
		//  2. The directory goes, and is made again.
		//  3. Another x comes, and is not the first.
		//
		// That x is younger than the listing, unless the round before has read the same
		// x. The latter counts if a server is mistaken about its directory's last change
		// (ZOOKEEPER-3125).
		same := leader.Node == before.Node && leader.Token == before.Token
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || same || leader.Token <= stat.Pzxid) {
			return leader, err
		}
	}
	return events.Leader{}, fmt.Errorf("%s changes as often as it is read", w.dir)
}

// candidate reads a candidate's node, with a watch on it.
func (w *leaderWatch) candidate(c *client, name string) (events.Leader, error) {
	node, err := c.readW(ofData, path.Join(w.dir, name), w)
	if err != nil {
		return events.Leader{}, err
	}
	return events.Leader{Node: path.Join(w.name, name), Data: node.data, Token: node.stat.Czxid}, nil
}

// leads returns the child of a directory that leads, or nothing.
func leads(children []string) string {
	first, _ := recipes.Leads(namesOf(children, false).queue)
	return first.Text
}

// tell passes on what was seen, if it differs from the last time.
func (w *leaderWatch) tell(word events.Leader) {
	wish, _ := read(word.Data)
	word.Data = UserData(word.Node, word.Data)
	if wish.stands && !wish.bounded && word.Node == w.word.Node && word.Token == w.word.Token {
		word.Data = w.word.Data // the wish has taken the place of the leader's word
	}
	e := &w.session.elections
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.told && sameWord(word, w.word) {
		return
	}
	w.told, w.word = true, word
	for _, o := range w.subscriptions {
		o.tell(word)
	}
}

// unsubscribe ends a subscription, and with the last one the leader watch. A watch that
// is armed stays until it fires, because a client cannot drop any. The next leader watch
// of the same election finds it armed.
func (w *leaderWatch) unsubscribe(o *subscription) {
	e := &w.session.elections
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
	e := &w.session.elections
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range w.subscriptions {
		o.forget()
		close(o.words)
	}
	w.subscriptions = nil
	w.remove()
}

// remove takes the leader watch out, unless another one has taken its place. It is called
// with the mutex held.
func (w *leaderWatch) remove() {
	if all := w.session.elections.watched; all[w.name] == w {
		delete(all, w.name)
	}
}
