package session

import (
	"errors"
	"path"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file follows a machine's request: [Seat.ask] notes what the answer depends on,
// admit lets it wait for what it needs, run makes it, and settle passes the answer to the
// machine.

// seatRequest is a request of a seat's machine. It is answered exactly once.
type seatRequest struct {
	slot

	seat     *Seat
	effect   recipes.Effect
	op       recipes.Op
	node     string       // the seat's node, if the request is about it
	guid     guid         // of the attempt whose node it creates or looks for
	before   string       // of a watch or an advance: the node watched until now
	past     int64        // of an advance: the zxid that created the missing node
	turn     bool         // of a list request and the watch after it: the seat's turn may have come
	warm     bool         // of an advance: the session is warm when it is sent; see recipes/warmth.go
	unwanted bool         // of a list request: the machine no longer waits for it
	leads    bool         // of a delete: a create may join it; see [recipes.Delete.Leads]
	with     *seatRequest // of a turnover's delete or create: the other one; see release.go
	wants    *listNeeds   // of a list request
}

var _ request = (*seatRequest)(nil)

// ask returns a machine's request. It notes what the answer depends on now, not when the
// request is made: of two watches, for example, the later one counts.
func (t *Seat) ask(effect recipes.Effect) *seatRequest {
	r := &seatRequest{seat: t, effect: effect}
	var own events.Name
	if r.op, r.epoch, own = recipes.Requested(effect); own.Text != "" {
		r.node = t.ownPath(own)
	}
	switch e := effect.(type) {
	case recipes.Create:
		if e.Back.Text != "" {
			_, r.guid = t.attempted()
			break
		}
		permits := int32(0)
		if t.permits != nil {
			permits = t.permits.wanted
		}
		r.guid = newGUID(t.marks, permits)
		t.mu.Lock()
		t.attempt, t.guid = e.Attempt, r.guid
		if t.several != nil {
			t.several.nodes = nil // from the previous attempt
		}
		t.mu.Unlock()
	case recipes.List:
		if latest, id := t.attempted(); e.Attempt == latest && latest != 0 {
			r.guid = id
		}
		dirs := t.listedDirs()
		// After a lost reply, a lagging server may not show the node yet. So a barrier
		// precedes the listing.
		r.wants = &listNeeds{dirs: dirs, barrier: e.Barrier && len(dirs) > 0}
	case recipes.Watch:
		r.before, _ = t.follow(t.at(e.Node))
	case recipes.Advance:
		if r.before, r.past = t.follow(t.at(e.Next)); r.before != t.at(e.Past) {
			r.past = 0 // of another node
		}
	case recipes.Enter:
		_, r.guid = t.attempted()
	}
	return r
}

// admit refuses the request, answers it from what the session knows, or queues it once
// there is room for the seat's nodes.
func (r *seatRequest) admit(s *Session) {
	t := r.seat
	if (t.in != nil || t.traded) && !s.mayTakePlace(r) {
		t.answer(recipes.Refused{Epoch: r.epoch, Op: r.op, Missing: true}, ErrGuard)
		return
	}
	s.noteRequest(r)
	if (r.op == recipes.OpClaim || r.op == recipes.OpAdvance) && s.isKnown(r) {
		return
	}
	if r.op == recipes.OpDelete {
		// Let the caller of Release continue before the request is sent. If it requests
		// the lock again at once, both become one request, or the new node is known to be
		// queued after the old one.
		s.loop.Yield()
		r.enter(s)
		return
	}
	// From here on, the request can be taken back. A delete cannot, because the node
	// exists.
	t.unsent = r
	if r.op == recipes.OpCreate || !t.counts {
		s.seek(r)
		return
	}
	r.enter(s)
}

// mayTakePlace reports whether the request may be made, for a writer that becomes a
// reader without letting another writer in between. While it holds, another seat creates
// a read node with the number of the write node, as Curator does. Then the write node is
// deleted, and the read node has its place in the queue. Once a read node is permitted,
// the writer counts as traded, and its delete leaves no floor.
func (s *Session) mayTakePlace(r *seatRequest) (may bool) {
	switch {
	case r.op == recipes.OpCreate && r.seat.in != nil:
		writer := r.seat.in
		// The deadline has passed, although the news of it may still be in the mailbox.
		if s.isOverdue(writer) {
			return false
		}
		// Only while the writer holds, and from now on the writer leaves no floor; see
		// Seat.traded. Both requests pass through here, so no floor is in flight when a
		// read node is created, and none is sent later.
		_, may = s.holders[writer]
		writer.traded = writer.traded || may
		return may
	case r.op == recipes.OpDelete && r.seat.traded:
		e, _ := r.effect.(recipes.Delete)
		e.Floor = false
		r.effect = e
	}
	return true
}

// enter takes the room that the seat's nodes need, unless it has it already, and queues
// the request, by itself or joined with another one.
func (r *seatRequest) enter(s *Session) {
	t := r.seat
	// A seat takes its room once, and keeps it if it queues up again in the next session.
	if !t.counts && r.op != recipes.OpDelete { // a delete needs no more room
		t.counts = true
		s.budget.Take(t.load())
		s.showFill()
	}
	// A list request waits for its listings, and the delete of a lock's single node for
	// the answers to transactions that depend on the node.
	if r.wants != nil && s.reads(r) || t.single != nil && t.single.keeps(r) {
		return
	}
	switch r.op {
	case recipes.OpDelete:
		// While it waits to be sent, a create of another seat in the same directory may
		// join it.
		e, _ := r.effect.(recipes.Delete)
		v := recipes.View{Brief: t.brief}
		if t.members != nil {
			v = s.client.viewOfMembers(t, MaxRequest/2) // the deletes take less than the creates
		}
		// A node with a late number may be deleted together with its directory (see
		// remove), so no create may join.
		if e.Leads(t.layout, v) && (path.Dir(r.node) == t.dir || t.permits != nil) && !events.Late(r.node) {
			r.leads = true
			s.joinable[t.dir] = r
		}
	case recipes.OpCreate:
		if parked := s.joinable[t.dir]; parked != nil && s.joins(r, parked) {
			return
		}
	default:
	}
	s.pending.add(r)
}

// joins makes a turnover of the create r and a waiting delete, which are then one
// request. It reports false if that is not possible.
func (s *Session) joins(r, parked *seatRequest) bool {
	t := r.seat
	e, _ := r.effect.(recipes.Create)
	v := recipes.View{Brief: t.brief, Dir: s.client.dirs.book(t.dir)}
	if t.members != nil {
		v = s.client.viewOfMembers(t, MaxRequest/2) // the deletes take less than the creates
	}
	if parked.epoch != r.epoch || !e.Follows(t.layout, v) {
		return false
	}
	parked.with, r.with = r, parked
	delete(s.joinable, t.dir)
	return true
}

// onDequeue ends the time in which a create may join a delete. It also checks the warmth
// once more, because the request may have waited for another connection.
func (r *seatRequest) onDequeue(s *Session) {
	t := r.seat
	if t.unsent == r {
		t.unsent = nil
	}
	if r.leads {
		if s.joinable[t.dir] == r {
			delete(s.joinable, t.dir)
		}
		if create := r.with; create != nil {
			create.onDequeue(s)
			create.with = nil // if the create is repeated later, it is sent alone
		}
	}
	r.warm = r.op == recipes.OpAdvance && recipes.Claim{}.Knowable(t.layout, t.needs(r.node)) &&
		s.warmth(s.client, r).Claims()
}

func (r *seatRequest) do(c *client) (func(*Session), error) {
	if r.wants != nil && r.wants.barrier {
		return r.doBarrier(c)
	}
	if create := r.with; r.leads && create != nil {
		left, entered, err := c.turnOver(r, create)
		return func(s *Session) {
			r.settle(s, c, left.in, left.err)
			create.settle(s, c, entered.in, entered.err)
		}, err
	}
	in, err := r.run(c)
	return func(s *Session) { r.settle(s, c, in, err) }, err
}

// run makes the client's blocking calls, in a separate goroutine. It returns the answer
// for the machine, or nil if there is none.
func (r *seatRequest) run(c *client) (in recipes.Input, err error) {
	t := r.seat
	var gone []string // nodes that are gone, according to the answer
	switch e := r.effect.(type) {
	case recipes.Create:
		in, err = c.create(t, e, r.guid)
	case recipes.List:
		switch {
		case t.single != nil:
			in, err = c.look(t, e)
		case t.permits != nil:
			return c.listSemaphore(t, e, r.guid, r.wants.found[0])
		case t.members != nil:
			return c.listMembers(t, e, r.guid, r.wants.found)
		default:
			return c.list(t, e, r.guid, r.wants.found[0])
		}
	case recipes.Watch:
		t.drop(c, r.before)
		if t.single != nil && c.watches.Subscribed(t.single.node, t) {
			return nil, nil // the watch of the last look is still armed
		}
		return c.watch(t, e)
	case recipes.Claim:
		in, err = c.claim(t, e)
	case recipes.Advance:
		t.drop(c, r.before)
		return c.advance(t, e, r.past, r.warm)
	case recipes.Survey:
		return c.survey(t, e)
	case recipes.Enter:
		in, err = c.enter(t, e, r.guid)
		if _, entered := in.(recipes.Entered); entered {
			gone = []string{t.at(e.Node)}
		}
	case recipes.Delete:
		nodes := t.nodes(r.node)
		in, err = c.remove(t, e, nodes)
		if _, deleted := in.(recipes.Deleted); deleted {
			gone = nodes
			// If the session still counted them as in use, it would queue up instead of
			// taking permits at once.
			if t.permits != nil {
				c.permitsLeft(t, nodes)
			}
		}
	case recipes.Arm:
		return c.arm(t, e)
	}
	for _, node := range gone {
		if events.Late(node) { // the directory's numbers are almost used up
			c.renewDirectory(t, path.Dir(node), "")
		}
	}
	if t.single != nil {
		c.owners.heard(t, in) // before any machine receives the answer
	}
	return in, err
}

// settle passes an answer to the machine.
func (r *seatRequest) settle(s *Session, c *client, in recipes.Input, err error) {
	// An armed watch has no answer. Its event is the machine's next input.
	if in == nil {
		return
	}
	in = r.marked(in)
	if err != nil {
		r.log(c, in, err)
	}
	// An answer from an earlier connection will not be verified, so it counts as lost
	// unless it stays true. For example, a node that is gone does not come back.
	if c.outdated && !recipes.Lasts(in) {
		s.tell(r.seat, r.marked(recipes.Unknown{Epoch: r.epoch, Op: r.op}), err)
		return
	}
	switch in := in.(type) {
	case recipes.Claimed, recipes.Created, recipes.Enqueued, recipes.Advanced, recipes.Entered:
		s.prove(c, r, in)
	case recipes.Listed:
		if in.Own.Token != 0 {
			r.seat.listed = true
			if own := r.seat.single; own != nil && !c.isOver() {
				own.known = true
			}
		}
		s.tell(r.seat, in, err)
		// A revocation request may have been read before the machine knew the node as its
		// own, so repeat it.
		s.repeatRequest(c, r.seat, in.Own.Name)
	case recipes.Refused:
		if recipes.Disproves(in) && !c.isOver() && s.holders[r.seat] == r.node {
			s.noteNodeGone(r.seat)
		}
		if r.op == recipes.OpDelete && !c.isOver() {
			// A node that was not deleted stays until the session ends, and keeps its room.
			s.uncount(r.seat, !errors.Is(err, errRecordStays))
		}
		r.discardMade(s)
		s.tell(r.seat, in, err)
	case recipes.Unknown:
		// The repeated request waits for a connection anyway, so no pause is needed.
		if c.phase.Load() != phaseUp {
			s.tell(r.seat, in, err)
			return
		}
		if r.op == recipes.OpCreate && r.seat.single == nil && zkerr.IsThrottled(err) {
			// The server executed nothing. If the machine received Unknown, it would look
			// for the node again and again.
			r.seat.unsent = r
			c.afterPause(func() {
				s.loop.Post(func() { s.makeAgain(r) })
			})
			return
		}
		// The machine repeats the request as soon as it receives the answer.
		c.afterPause(func() { s.loop.Post(func() { s.tell(r.seat, in, err) }) })
	case recipes.Gone:
		// For a lock's single node, this may be late news of an earlier node.
		if !s.isPast(c, r.seat) {
			r.seat.passed = true
			s.tell(r.seat, in, err)
		}
	default:
		s.tell(r.seat, in, err)
	}
}

// marked returns an answer to a claim with the claim's Held, and any other answer as it
// is; see [recipes.Claim.Marks].
func (r *seatRequest) marked(in recipes.Input) recipes.Input {
	claim, _ := r.effect.(recipes.Claim) // the zero value marks nothing
	return claim.Marks(in)
}

// makeAgain queues a create that a server turned away, after a pause. Nothing was
// created, so the request counts as not sent: the machine need not look for the node, and
// a seat that is withdrawn in the meantime leaves nothing behind.
func (s *Session) makeAgain(r *seatRequest) {
	switch {
	case r.seat.unsent != r: // withdrawn
	case s.late(r):
		r.refuse(s)
	default:
		s.pending.add(r)
	}
}

// log logs why a request failed. A refused delete is an error, because the node blocks
// other contenders until the session ends.
func (r *seatRequest) log(c *client, in recipes.Input, err error) {
	if errors.Is(err, errRecordStays) {
		return // it is logged already
	}
	level, what := zap.DebugLevel, "request failed"
	if _, refused := in.(recipes.Refused); refused {
		level, what = zap.WarnLevel, "request refused"
		if r.op == recipes.OpDelete {
			level, what = zap.ErrorLevel, "could not delete a node; it stays until the session ends"
		}
	}
	c.logger.Log(level, what, zap.Stringer("request", r.op), zap.String("path", r.seat.path()),
		zap.Error(err))
}

// urgency puts newcomers after waiters that have a node. A create in a writer's place is
// urgent: it is for a held lock, and must precede the writer's delete.
func (r *seatRequest) urgency() urgency {
	urgent := handing
	switch r.op {
	case recipes.OpClaim:
		// A claim that can share a transaction with others; see [jointClaim].
		if claim, ok := r.effect.(recipes.Claim); ok && claim.Joint(r.seat.layout) {
			urgent = proving
		}
	case recipes.OpCreate:
		if r.seat.in == nil {
			urgent = joining
		}
	case recipes.OpList, recipes.OpWatch:
		if !r.turn {
			urgent = joining
		}
	case recipes.OpSurvey:
		if r.node == "" {
			urgent = joining
		}
	case recipes.OpDelete, recipes.OpAdvance, recipes.OpEnter, recipes.OpArm:
	}
	return urgent
}

func (r *seatRequest) refuse(s *Session) {
	r.seat.answer(r.marked(recipes.Unknown{Epoch: r.epoch, Op: r.op}), nil)
	if create := r.with; r.leads && create != nil {
		create.refuse(s)
	}
}
