package session

import "github.com/zkgrant/zkgrant/recipes"

// seatRequest is a request of a seat's machine. It is answered exactly once.
type seatRequest struct {
	slot

	seat     *Seat
	effect   recipes.Effect
	op       recipes.Op
	epoch    recipes.Epoch
	node     string     // the own node's path, if it is about that
	guid     guid       // of the attempt that it makes a node of, or looks for
	before   string     // the node that was watched until now, of a watch and an advance
	past     int64      // the zxid that created the node which has gone, of an advance
	turn     bool       // of a list request, and of the watch after it: the turn may have come
	warm     bool       // of an advance: the session is warm when it is made, see warmth.go
	unwanted bool       // of a list request: no machine waits for it any more
	with     *turnover  // of a create: the release that goes in the same request
	wants    *listNeeds // of a list request
}

func (r *seatRequest) meantFor() recipes.Epoch { return r.epoch }

// urgency puts newcomers after waiters that have a node. A create in a writer's place is
// for a lock that is held, and comes before the writer's delete.
func (r *seatRequest) urgency() urgency {
	urgent := handing
	switch r.op {
	case recipes.OpClaim:
		if r.joint() {
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

// joint reports whether it is a claim that can be made together with others.
func (r *seatRequest) joint() bool {
	claim, ok := r.effect.(recipes.Claim)
	return ok && claim.Joint(r.seat.layout)
}

func (r *seatRequest) refuse() { r.seat.answer(recipes.Unknown{Epoch: r.epoch, Op: r.op}, nil) }

// turnover is the delete of a node. If a create of another seat in the same directory
// joins it while it is parked, both are one request.
type turnover struct {
	slot

	leave *seatRequest
	enter *seatRequest // nil: only the delete
}
