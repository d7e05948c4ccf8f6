package zkprom

import (
	"context"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

// state is what the hooks have received. It has no clock, and no mutex of its own.
type state struct {
	labels *words.Labels
	locks  map[string]*lock        // by label
	live   map[uint64]*acquisition // by ID, until it ends

	session  string // one of words.SessionStates
	lease    time.Time
	nodes    hooks.Nodes
	heard    map[string]uint64 // counts of session events
	requests map[request]*histogram
}

// lock has the counts of the locks with one label.
type lock struct {
	label string
	into  *lock // the lock that has replaced this one, or nil

	kinds                        map[string]bool
	acquired                     map[how]*histogram
	held                         map[how]*histogram
	lost                         map[string]uint64
	requeued, revoked, abandoned uint64
}

// how is a kind of lock, and how a wait for it or a hold of it ended.
type how struct{ kind, end string }

type request struct{ op, result string }

// acquisition is a waiter or a holder.
type acquisition struct {
	lock    *lock
	kind    string
	permits int
	try     bool
	ctx     context.Context //nolint:containedctx // the caller's, until the Grant: its cause distinguishes one end from another
	asked   time.Time
	ahead   int // contenders ahead at the latest listing

	places  []place // once granted: one, or each member of a multi-lock
	granted time.Time
	revoked bool
}

// place is a lock that an acquisition holds.
type place struct {
	lock   *lock
	tenure tenure
}

// tenure identifies a hold, which acquisitions that reentered a lock share.
type tenure struct{ kind, node string }

func newState(most int) *state {
	s := &state{
		labels: words.NewLabels(most, false), locks: map[string]*lock{}, live: map[uint64]*acquisition{},
		session: words.Connecting, heard: map[string]uint64{}, requests: map[request]*histogram{},
	}
	for _, event := range []string{
		words.Connected, words.Suspended, words.Resumed, words.Expired, words.LeaseOut,
	} {
		s.heard[event] = 0
	}
	return s
}

// labelled returns the lock with a label.
func (s *state) labelled(label string) *lock {
	l := s.locks[label]
	if l == nil {
		l = &lock{
			label: label, kinds: map[string]bool{}, acquired: map[how]*histogram{}, held: map[how]*histogram{}, lost: map[string]uint64{},
		}
		for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
			l.lost[words.Reason(r)] = 0 // Prometheus sees no increase in a counter that starts at 1
		}
		s.locks[label] = l
	}
	return l
}

// at returns the lock at a path, by the given label or else by the default one. If labels
// are replaced, their counts move to the lock with the new label.
func (s *state) at(path, label string, given bool) *lock {
	if given {
		return s.labelled(s.labels.Given(label))
	}
	label, replaced := s.labels.Of(path)
	l := s.labelled(label)
	for _, old := range replaced {
		if o := s.locks[old]; o != nil && o != l {
			l.absorb(o)
			delete(s.locks, old)
		}
	}
	return l
}

func (l *lock) absorb(o *lock) {
	o.into = l
	for kind := range o.kinds {
		l.kinds[kind] = true
	}
	for h, counted := range o.acquired {
		histogramOf(l.acquired, h, "acquire.duration").add(counted)
	}
	for h, counted := range o.held {
		histogramOf(l.held, h, "hold.duration").add(counted)
	}
	for reason, n := range o.lost {
		l.lost[reason] += n
	}
	l.requeued += o.requeued
	l.revoked += o.revoked
	l.abandoned += o.abandoned
}

// now returns the lock whose counts replace l's, or l. A label is replaced at most once.
func (l *lock) now() *lock {
	if l.into != nil {
		return l.into
	}
	return l
}

// histogramOf returns the histogram with this key; a new one has the metric's bounds.
func histogramOf[K comparable](all map[K]*histogram, key K, metric string) *histogram {
	h := all[key]
	if h == nil {
		h = newHistogram(descriptions[metric].bounds)
		all[key] = h
	}
	return h
}

// acquire adds an acquisition of the lock l.
func (s *state) acquire(ctx context.Context, now time.Time, l *lock, info hooks.Acquire) {
	l.kinds[info.Kind] = true
	s.live[info.ID] = &acquisition{lock: l, kind: info.Kind, permits: max(1, info.Permits), try: info.Try, ctx: ctx, asked: now}
}

// event takes in an event. given are the labels of a Grant's members, if a user's
// function chooses labels.
func (s *state) event(now time.Time, event events.Event, given ...string) {
	switch event := event.(type) {
	case events.Queued:
		if a := s.live[event.ID]; a != nil {
			a.ahead = event.Ahead
		}
	case events.Requeued:
		if a := s.live[event.ID]; a != nil {
			a.lock.now().requeued++
		}
	case events.Grant:
		s.grant(now, event, given)
	case events.Revoked:
		if a := s.live[event.ID]; a != nil && !a.revoked { // an earlier deadline is not another request
			a.revoked = true
			a.lock.now().revoked++
		}
	case events.Lost:
		if a := s.live[event.ID]; a != nil {
			a.lock.now().lost[words.Reason(event.Reason)]++
			a.ends(words.Lost, event.Held)
			delete(s.live, event.ID)
		}
	case events.Ended:
		s.ended(now, event)
	case events.Connected, events.Suspended, events.Resumed, events.SessionExpired:
		after, name := words.SessionAfter(event)
		s.session = after
		s.heard[name]++
	}
}

func (s *state) grant(now time.Time, g events.Grant, given []string) {
	a := s.live[g.ID]
	if a == nil {
		return
	}
	a.granted, a.ctx = now, nil
	if len(g.Members) == 0 {
		a.places = []place{{a.lock, tenure{a.kind, g.Node}}}
	}
	for i, member := range g.Members {
		label := ""
		if given != nil {
			label = given[i]
		}
		at := s.at(member.Path, label, given != nil)
		at.kinds[a.kind] = true
		a.places = append(a.places, place{at, tenure{a.kind, member.Node}})
	}
	l := a.lock.now()
	histogramOf(l.acquired, how{a.kind, words.Granted}, "acquire.duration").observe(g.Waited)
	if g.Abandoned != nil {
		l.abandoned++
	}
}

func (s *state) ended(now time.Time, e events.Ended) {
	a := s.live[e.ID]
	if a == nil {
		return
	}
	delete(s.live, e.ID)
	if a.holds() {
		if e.Held > 0 {
			a.ends(endOf(e.Err, true), e.Held)
		} else { // the Grant was not taken, or released at once
			a.ends(endOf(e.Err, false), now.Sub(a.granted))
		}
		return
	}
	histogramOf(a.lock.now().acquired, how{a.kind, words.Outcome(a.ctx, a.try, e.Err)}, "acquire.duration").observe(now.Sub(a.asked))
}

func (a *acquisition) holds() bool { return !a.granted.IsZero() }

// ends counts the end of a hold.
func (a *acquisition) ends(end string, held time.Duration) {
	histogramOf(a.lock.now().held, how{a.kind, end}, "hold.duration").observe(held)
}

// request counts a request.
func (s *state) request(r hooks.Request) {
	histogramOf(s.requests, request{words.Op(r.Op), words.Result(r.Err)}, "request.duration").observe(r.Duration)
	if r.Op == words.Closing && r.Err == nil {
		s.session = words.Closed
	}
}

// leased takes in the lease's deadline.
func (s *state) leased(l hooks.Lease) {
	s.lease = l.Deadline
	if l.RanOut {
		s.heard[words.LeaseOut]++
	}
}
