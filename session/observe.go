package session

import (
	"bytes"
	"context"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

var _ onlooker = (*outlook)(nil)

// This file is for those who want to hear who leads an election, candidates or not. All who do so of one election
// share an [outlook] of it.

// Observe delivers who leads the election at the path, and from then on each other one, until ctx ends or the session is
// closed; then the channel is closed. So it is when a server refuses the path or the leader's node to be read. The channel
// has one place, in which a later word takes that of one that nobody has read.
//
// What comes is in order, also beyond the end of a session. While there is no connection the last word stands, and
// nothing comes.
func (s *Session) Observe(ctx context.Context, dir string) <-chan events.Leader {
	o := &observer{dir: dir, words: make(chan events.Leader, 1)}
	ctx, o.forget = context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { s.actor.Post(unobserved{o}) })
	if !s.actor.Post(observed{o}) { // nothing is left of the session
		o.end()
	}
	return o.words
}

// observer is one who observes. Only the session's drain touches it, once it is there.
type observer struct {
	dir    string // without the chroot
	words  chan events.Leader
	forget context.CancelFunc // of the context that says how long
	over   bool

	last, read *events.Leader // what was said last, and before that, if it is known to have been read
}

// tell puts the word into the place of the one before it, unless that was not read, and the one before that has said the
// same: so nothing is read twice. Nobody else writes there, so there is room.
func (o *observer) tell(l events.Leader) {
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

// sameWord tells whether the two say the same.
func sameWord(a, b events.Leader) bool {
	return a.Node == b.Node && a.Token == b.Token && bytes.Equal(a.Data, b.Data)
}

// end does nothing the second time.
func (o *observer) end() {
	if !o.over {
		o.over = true
		close(o.words)
		o.forget()
	}
}

// outlook is what a session knows of who leads an election. Only the session's drain touches it.
//
// The first candidate leads, and no other one comes first before its node is gone. So that node is watched, and nothing
// else: whoever joins behind it, or leaves there, wakes nobody up. Where there is no candidate the
// children of the directory are watched, and where there is no directory, its creation.
//
// There is one reading at a time, a [glimpse]. What happens while one is under way has another one follow it. So what is
// told is in order: within a session readings do not go back, and what the next one reads first is not behind
// that either. A server makes a session by a transaction, and has executed all before it when it says so.
type outlook struct {
	session   *Session
	dir, name string // with the chroot and without it
	observers []*observer

	glimpse *glimpse // parked or under way
	again   bool     // something has happened since that began
	on      string   // the path that is looked out on, or nothing

	told bool // and what:
	word events.Leader
	node string // the leader's path at the server; nothing if it is known to be gone
}

func (s *Session) onObserved(o *observer) {
	if o.over { // the ends of contexts may be quicker
		return
	}
	if s.closing {
		o.end()
		return
	}
	dir := join(s.chroot, o.dir)
	v := s.outlooks[dir]
	if v == nil {
		v = &outlook{session: s, dir: dir, name: o.dir}
		s.outlooks[dir] = v
	}
	v.observers = append(v.observers, o)
	if v.told {
		o.tell(v.word)
	}
	if v.glimpse == nil && !v.told {
		v.look()
	}
}

func (s *Session) onUnobserved(o *observer) {
	if o.over {
		return
	}
	o.end()
	v := s.outlooks[join(s.chroot, o.dir)]
	if v == nil {
		return
	}
	v.observers = slices.DeleteFunc(v.observers, func(other *observer) bool { return other == o })
	if len(v.observers) == 0 && (v.glimpse == nil || s.pending.remove(v.glimpse)) {
		v.glimpse = nil
		v.drop(s.client)
	}
}

// lookAllAgain has every outlook and every revocation look, on a connection behind another one: what was watched there may have changed unseen.
func (s *Session) lookAllAgain(c *client) {
	for _, v := range s.outlooks {
		v.lookAgain(c, false)
	}
	for _, r := range s.revoking {
		r.lookAgain(c)
	}
}

// lookNoMore ends all of them.
func (s *Session) lookNoMore() {
	for _, v := range s.outlooks {
		v.end()
	}
	clear(s.outlooks)
	for _, r := range slices.Clone(s.revoking) {
		r.end(ErrClosed)
	}
}

// lookAgain is called when something may have happened.
func (v *outlook) lookAgain(_ *client, gone bool) {
	if gone && v.on == v.node {
		v.node = ""
	}
	switch {
	case v.glimpse == nil:
		v.look()
	case v.glimpse.begun.Load():
		v.again = true
	default: // it will see that
	}
}

func (v *outlook) look() {
	v.glimpse, v.again = &glimpse{outlook: v, dir: v.dir, name: v.name, node: v.node, token: v.word.Token, was: v.on}, false
	v.session.onRequest(v.glimpse)
}

// drop forgets the outlook. A watch that is armed stays until it fires, for a client cannot drop any; a later outlook of
// the same election finds it armed.
func (v *outlook) drop(c *client) {
	if c != nil {
		c.looks.forget(v.on, v)
	}
	if v.session.outlooks[v.dir] == v {
		delete(v.session.outlooks, v.dir)
	}
}

// end tells the observers that nothing more will come.
func (v *outlook) end() {
	for _, o := range v.observers {
		o.end()
	}
	v.observers = nil
}

// tell passes on what was seen, if it is something else than the last time.
func (v *outlook) tell(g *glimpse) {
	word := g.leader
	wish, _ := read(word.Data)
	word.Data = UserData(word.Node, word.Data)
	if wish.stands && !wish.bounded { // it has taken the place of the leader's word
		if v.told && word.Node == v.word.Node && word.Token == v.word.Token {
			word.Data = v.word.Data
		}
	}
	v.node = g.found
	if v.told && sameWord(word, v.word) {
		return
	}
	v.told, v.word = true, word
	for _, o := range v.observers {
		o.tell(word)
	}
}
