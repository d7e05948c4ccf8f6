package session

import (
	"strings"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// The kinds of requests: what a seat's machine asks for, nodes to be removed, and
// watches to be armed again. For those of callers that wait see call.go.
var _, _, _ request = (*asked)(nil), (*removal)(nil), (*rearming)(nil)

// asked is a request of a seat's machine. It is answered exactly once.
type asked struct {
	slot

	seat     *Seat
	epoch    recipes.Epoch
	op       recipes.Op
	node     string           // the own one's path, of what may end in a grant and of a delete
	guid     string           // of the attempt, of a create
	floor    bool             // of a delete: it leaves a floor
	clean    bool             // and removes the record
	turn     bool             // of a list request, and of the watch behind it: the turn may have come
	held     bool             // of a claim: the seat holds
	plain    bool             // of a claim: it is about no record
	with     *turnover        // of a create: the release that it is one request with
	wants    *wanted          // of a list request
	served   []*sharedListing // of a list request: by these, one a directory
	unwanted bool             // of a list request: nobody waits for it any more
	run      func(*client) (recipes.Input, error)
}

func (r *asked) meantFor() recipes.Epoch { return r.epoch }

// urgency puts those who come anew behind those who have a node. A create in a writer's place is for a lock that is held, and comes
// before the writer's delete.
func (r *asked) urgency() urgency {
	urgent := handing
	switch r.op {
	case recipes.OpClaim:
		if r.joins() {
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
	case recipes.OpDelete, recipes.OpAdvance, recipes.OpEnter:
	}
	return urgent
}

func (r *asked) refuse() { r.seat.post(recipes.Unknown{Epoch: r.epoch, Op: r.op}, nil) }

func (r *asked) do(c *client) (func(*Session), error) {
	if r.wants != nil && r.wants.barrier != "" {
		return r.doBarrier(c)
	}
	in, err := r.run(c)
	return func(s *Session) { r.settle(s, c, in, err) }, err
}

// settle passes the answer on.
func (r *asked) settle(s *Session, c *client, in recipes.Input, err error) {
	if in == nil {
		return
	}
	r.log(c, in, err)
	if c.outdated && !lasts(in) {
		r.seat.post(recipes.Unknown{Epoch: r.epoch, Op: r.op}, err)
		return
	}
	switch in := in.(type) {
	case recipes.Claimed:
		s.onClaimed(c, r, in)
	case recipes.Created:
		s.onCreated(c, r, in)
	case recipes.Enqueued:
		s.onEnqueued(c, r, in)
	case recipes.Advanced:
		s.onAdvanced(c, r, in)
	case recipes.Listed:
		if in.Own.Token != 0 {
			s.settle(c, r.seat)
		}
		r.seat.post(in, err)
		c.remind(r.seat, in.Own.Name.Text)
	case recipes.Refused:
		if r.op == recipes.OpClaim && in.Missing && c == s.client && s.holders[r.seat] == r.node {
			s.lostNode(c, r.seat)
		}
		r.seat.post(in, err)
	case recipes.Entered:
		s.onAdmitted(c, r, in)
	case recipes.Unknown:
		if !c.up {
			r.seat.post(in, err)
			return
		}
		// Whoever is told makes the request again at once.
		afterPause(func() { r.seat.post(in, err) })
	case recipes.Gone:
		if !s.isPast(c, r.seat) {
			r.seat.passed = true
			r.seat.post(in, err)
		}
	default:
		r.seat.post(in, err)
	}
}

// log says what nobody else may hear: a refused delete leaves a node that blocks
// others until the session ends.
func (r *asked) log(c *client, in recipes.Input, err error) {
	if err == nil {
		return
	}
	level, what := zap.DebugLevel, "request failed"
	if _, refused := in.(recipes.Refused); refused {
		level, what = zap.WarnLevel, "request refused"
		if r.op == recipes.OpDelete {
			level, what = zap.ErrorLevel, "could not remove a node; it stays until the session ends"
		}
	}
	c.logger.Log(level, what, zap.Stringer("request", r.op), zap.String("path", strings.TrimPrefix(r.seat.dir, r.seat.session.chroot)), zap.Error(err))
}

// removal removes a node, in any epoch, and is made until that is settled.
type removal struct {
	slot

	node string
}

func (r *removal) meantFor() recipes.Epoch { return 0 }

func (r *removal) urgency() urgency { return handing }

func (r *removal) refuse() {} // the session is closed, and its nodes go with it

func (r *removal) do(c *client) (func(*Session), error) {
	again := c.discard(r.node)
	return func(s *Session) {
		if again {
			s.again(c, r)
		}
	}, nil
}

// rearming arms a watch again, for whoever is interested in the node by then.
type rearming struct {
	slot

	epoch recipes.Epoch
	node  string
}

func (r *rearming) meantFor() recipes.Epoch { return r.epoch }

func (r *rearming) urgency() urgency { return handing }

func (r *rearming) refuse() {} // the watches of an epoch end with it

func (r *rearming) do(c *client) (func(*Session), error) {
	in := c.rearm(r.node)
	return func(s *Session) {
		switch in.(type) {
		case recipes.Gone:
			s.tellGone(c, r.node, false)
		case recipes.Unknown:
			s.again(c, r)
		case recipes.Refused:
			s.tellUnwatched(c, r.node)
		default: // it is armed
		}
	}, nil
}
