package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about observers of elections, whether or not they are candidates, and of
// queues. All observers of a path share one [follower] per session.

// subject is what a follower reads, and reads again when it may have changed, in one
// goroutine.
type subject[W any] interface {
	// read returns the current word, and watches what may change it.
	read(ctx context.Context, c *client) (W, error)
	// leave ends the subscriptions for good.
	leave()
}

// followers are a session's followers of one kind. W is the word that they read, and T is
// what an observer receives. mu also guards the followers and the observers.
type followers[W, T any] struct {
	session *Session
	what    string            // for the log
	same    func(a, b W) bool // reports whether two words are the same
	subject func(*watcher, QueuePlace) subject[W]
	paced   bool // at most one read per probe interval

	mu  sync.Mutex
	all map[QueuePlace]*follower[W, T] // those that have observers
}

// observer may follow several places, and receives their words together.
type observer[W, T any] struct {
	words  chan T // size 1; only tell writes there
	show   func(seen []*W) T
	forget func() bool // stops waiting for its context
	at     []*follower[W, T]

	seen       []*W // by place; nil: nothing yet
	last, read []*W // last was seen at the latest word; read, at the latest one known to have been read
}

// observe returns a channel of size 1, in which a later word replaces an unread one. The
// channel is closed when ctx ends, the session is closed, or a server refuses to read a
// place. show converts what was seen into a value for the observer.
func (f *followers[W, T]) observe(
	ctx context.Context, show func(seen []*W) T, places ...QueuePlace,
) <-chan T {
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

// tell delivers a word, which replaces an unread one. No observer reads the same word
// twice in a row: if A was read, B is unread and A comes again, B is removed and nothing
// replaces it.
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

// end closes the channel of an observer. The last observer of a place ends its follower.
// An armed watch stays until it fires, because a client cannot remove it. The next
// follower of the place finds it armed.
func (f *followers[W, T]) end(o *observer[W, T]) {
	if o.seen == nil {
		return // it ended earlier
	}
	o.forget()
	close(o.words)
	o.seen = nil
	for _, w := range o.at {
		w.observers = slices.DeleteFunc(w.observers,
			func(of observation[W, T]) bool { return of.observer == o })
		if len(w.observers) == 0 {
			w.end()
			delete(f.all, w.at)
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
	word      *W // nil: none yet
}

// observation is an observer, and the index of the follower's place among the observer's.
type observation[W, T any] struct {
	observer *observer[W, T]
	place    int
}

// follow starts a follower. It returns nil if the session has ended. It is called with mu
// held.
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

// run reads until ctx ends because there are no observers left, the session is closed, or
// a server refuses the read.
func (w *follower[W, T]) run(ctx context.Context) {
	defer w.over()
	for again := true; again; {
		var began time.Time
		word, err := call(ctx, w.session, callOptions{urgent: observing}, func(c *client) (W, error) {
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

// pace waits until the next read may begin or the session is closed. It returns false if
// ctx ends first.
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

// tell passes a word on to the observers.
func (w *follower[W, T]) tell(word *W) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.word = word
	for _, o := range w.observers {
		w.of.tell(o.observer, o.place, word)
	}
}

// over ends all observers.
func (w *follower[W, T]) over() {
	w.subject.leave()
	w.end()
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, o := range slices.Clone(w.observers) {
		w.of.end(o.observer)
	}
}

// Observe delivers the leader of the election at the path, and then each later leader. It
// closes the channel when ctx ends, the session is closed, or a server refuses to read
// the path or the leader's node. The channel has size 1, and a later value replaces an
// unread one.
//
// Values arrive in order, even across sessions. Without a connection none arrive, and the
// last one remains valid.
func (s *Session) Observe(ctx context.Context, dir string) <-chan events.Leader {
	return s.leaders.observe(ctx, func(seen []*events.Leader) events.Leader {
		own := *seen[0]
		own.Data = bytes.Clone(own.Data) // the reader's own copy
		return own
	}, QueuePlace{Path: dir})
}

// sameWord reports whether a and b are the same leader with the same data.
func sameWord(a, b events.Leader) bool {
	return a.Node == b.Node && a.Token == b.Token && bytes.Equal(a.Data, b.Data)
}

// leaderWatch reads the leader of an election.
//
// The first candidate leads, and no other one becomes first before its node is gone. So
// only that node is watched, and observers are not woken when later candidates join or
// leave. Without a candidate, the children of the directory are watched, and without a
// directory, its creation.
//
// Deliveries are in order. Within a session, reads never go back in time. Neither does
// the first read of the next session: a server creates a session by a transaction, and
// has executed everything before it when it answers.
type leaderWatch struct {
	*watcher

	dir, name string // with the chroot and without it
	word      events.Leader
}

func newLeaderWatch(w *watcher, at QueuePlace) subject[events.Leader] {
	return &leaderWatch{watcher: w, dir: under(w.session.chroot, at.Path), name: at.Path}
}

// read returns the leader, and watches what may change it.
func (w *leaderWatch) read(_ context.Context, c *client) (events.Leader, error) {
	word, err := w.find(c)
	if err != nil {
		return word, err
	}
	revocation, _ := read(word.Data)
	word.Data = UserData(word.Node, word.Data)
	if revocation.stands && !revocation.bounded && word.Node == w.word.Node && word.Token == w.word.Token {
		word.Data = w.word.Data // the request has replaced the leader's data
	}
	w.word = word
	return word, nil
}

// find reads the leader's node and watches it, or else the directory.
func (w *leaderWatch) find(c *client) (events.Leader, error) {
	gone := w.begin()
	if w.word.Node != "" && !gone {
		// The last leader still leads if its node exists. Another node with the same name
		// need not lead.
		leader, err := w.candidate(c, path.Base(w.word.Node))
		if err == nil && leader.Token == w.word.Token || err != nil && !errors.Is(err, zk.ErrNoNode) {
			return leader, err
		}
	}
	var leader events.Leader
	for range maxTries {
		// List without a watch if there is a candidate, because every one that joins
		// changes the directory.
		children, stat, err := c.conn.Children(w.dir)
		if err == nil && leads(children) == "" {
			var dir snapshot
			dir, err = c.readW(ofChildren, w.dir, w)
			children, stat = dir.children, dir.stat
		}
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := w.awaits(c, w.dir); missing || err != nil {
				return events.Leader{}, err
			}
			continue // the directory was created in the meantime
		}
		first := leads(children)
		if err != nil || first == "" {
			return events.Leader{}, err
		}
		before := leader
		leader, err = w.candidate(c, first)
		// A name without a GUID can be used again:
		//
		//  1. x is listed.
		//  2. The directory is deleted and created again.
		//  3. Another x joins, and is not the first.
		//
		// That x is younger than the listing, so list again. If the next round reads the
		// same x, it counts, in case a server is mistaken about the directory's last
		// change (ZOOKEEPER-3125).
		same := leader.Node == before.Node && leader.Token == before.Token
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || same || leader.Token <= stat.Pzxid) {
			return leader, err
		}
	}
	return events.Leader{}, fmt.Errorf("%s changes as often as it is read", w.dir)
}

// candidate reads a candidate's node and watches it.
func (w *leaderWatch) candidate(c *client, name string) (events.Leader, error) {
	node, err := c.readW(ofData, path.Join(w.dir, name), w)
	if err != nil {
		return events.Leader{}, err
	}
	return events.Leader{Node: path.Join(w.name, name), Data: node.data, Token: node.stat.Czxid}, nil
}

// leads returns the child of a directory that leads, or "".
func leads(children []string) string {
	first, _ := recipes.Leads(namesOf(children, false).queue)
	return first.Text
}

// Form is where a lock's contenders have their nodes.
type Form uint8

// The forms.
const (
	FormDirectory Form = iota // in the lock's directory
	FormNode                  // the lock's own node
	FormSemaphore             // in the two directories of a semaphore
)

// QueueNodes are the nodes of a lock's contenders.
type QueueNodes struct {
	Queue   []Found // by name
	Permits []Found // a semaphore's, by name
	Size    int     // of a semaphore, or 0; with Names
}

// QueuePlace identifies a queue.
type QueuePlace struct {
	Path  string // without the chroot
	Form  Form
	Names bool // Found has only the names, and a semaphore's Size is read
}

// WatchQueues calls show with the nodes of the contenders at each place, in that order,
// and delivers the result, at once and after each change. It closes the channel when ctx
// ends, the session is closed, a server refuses to read a place, or a node of [FormNode]
// is persistent. The channel has size 1, and a later value replaces an unread one.
//
// All observers of a place share one watch, and one listing per probe interval at most.
// Data are read once, except those of FormNode. Without a connection, the last value
// remains valid. show must not block or modify the nodes, which other observers share.
func (s *Session) WatchQueues(
	ctx context.Context, places []QueuePlace, show func([]*QueueNodes) []events.Contender,
) <-chan []events.Contender {
	return s.queues.observe(ctx, show, places...)
}

// sameNodes reports whether both have the same contenders.
func sameNodes(a, b QueueNodes) bool {
	same := func(a, b Found) bool {
		return a.Name == b.Name && (a.Stat == nil || a.Stat.Czxid == b.Stat.Czxid) &&
			bytes.Equal(a.Data, b.Data)
	}
	return a.Size == b.Size && slices.EqualFunc(a.Queue, b.Queue, same) &&
		slices.EqualFunc(a.Permits, b.Permits, same)
}

// queueWatch reads the queue of a lock. A semaphore has two directories, with a watcher
// each and a common signal.
type queueWatch struct {
	form           Form
	names          bool
	queue, permits *watcher // permits is nil except for a semaphore
	at, holding    string   // what they watch
	known          Known
}

func newQueueWatch(w *watcher, at QueuePlace) subject[QueueNodes] {
	q := &queueWatch{form: at.Form, names: at.Names, queue: w, at: under(w.session.chroot, at.Path)}
	if q.form == FormSemaphore {
		q.at, q.holding = SemaphoreDirs(q.at)
		q.permits = newWatcher(w.session)
		q.permits.changed = w.changed
	}
	return q
}

func (q *queueWatch) leave() {
	q.queue.leave()
	if q.permits != nil {
		q.permits.leave()
	}
}

// read reads the permits after the queue, so that a waiter that enters in between is not
// missed in both.
func (q *queueWatch) read(ctx context.Context, c *client) (all QueueNodes, err error) {
	q.queue.begin()
	if q.form == FormNode {
		all.Queue, err = q.node(c)
		return all, err
	}
	if all.Queue, err = q.list(ctx, c, q.queue, q.at); err != nil || q.permits == nil {
		return all, err
	}
	if all.Permits, err = q.list(ctx, c, q.permits, q.holding); err != nil || !q.names {
		return all, err
	}
	data, _, err := c.conn.Get(path.Join(path.Dir(q.at), SizeNode))
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	all.Size = int(ParseSize(data))
	return all, err
}

// list returns the contenders in a directory, and watches it.
func (q *queueWatch) list(ctx context.Context, c *client, w *watcher, dir string) ([]Found, error) {
	for range maxTries {
		s, err := c.readW(ofChildren, dir, w)
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := w.awaits(c, dir); missing || err != nil {
				q.known.Keep(dir, nil)
				return nil, err
			}
			continue // the directory was created in the meantime
		}
		if err != nil {
			return nil, err
		}
		names := slices.DeleteFunc(s.children, func(child string) bool {
			_, contends := events.ParseName(child)
			return !contends && w != q.permits
		})
		if q.names {
			slices.Sort(names)
			found := make([]Found, len(names))
			for i, name := range names {
				found[i].Name = name
			}
			return found, nil
		}
		found, news := q.known.split(dir, s.stat, names)
		read, err := c.readAll(ctx, dir, news, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, read...)
		slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
		q.keep(dir, found)
		return found, nil
	}
	return nil, fmt.Errorf("%s changes as often as it is read", dir)
}

// keep notes what need not be read again: names with a number, which is unique in the
// directory. Other programs' nodes among the permits may lack one.
func (q *queueWatch) keep(dir string, found []Found) {
	kept := make(map[string]Found, len(found))
	for _, f := range found {
		if dir == q.at || IsPermit(f.Name) {
			kept[f.Name] = f
		}
	}
	q.known.Keep(dir, kept)
}

// node returns the holder of an unfair lock, and watches its node.
func (q *queueWatch) node(c *client) ([]Found, error) {
	for range maxTries {
		s, err := c.readW(ofData, q.at, q.queue)
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := q.queue.awaits(c, q.at); missing || err != nil {
				return nil, err
			}
			continue // it was created in the meantime
		}
		if err == nil && !Ephemeral(s.stat) {
			err = verdict{fmt.Errorf("the node %s is not a lock", q.at)}
		}
		if err != nil {
			return nil, err
		}
		return []Found{{Name: path.Base(q.at), Data: s.data, Stat: s.stat}}, nil
	}
	return nil, fmt.Errorf("%s changes as often as it is read", q.at)
}
