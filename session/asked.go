package session

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// asked is a request of a seat's machine. It is answered exactly once.
type asked struct {
	slot

	seat     *Seat
	effect   recipes.Effect
	op       recipes.Op
	epoch    recipes.Epoch
	node     string           // the own node's path, if it is about that
	guid     guid             // of the attempt that it makes a node of, or looks for
	before   string           // the node that was watched until now, of a watch and an advance
	past     int64            // the zxid that created the node which has gone, of an advance
	turn     bool             // of a list request, and of the watch behind it: the turn may have come
	warm     bool             // of a claim, and an advance: the session is warm when it is made, see warmth.go
	unwanted bool             // of a list request: no machine waits for it any more
	with     *turnover        // of a create: the release that goes in the same request
	wants    *wanted          // of a list request
	served   []*sharedListing // of a list request: the listings that serve it, one a directory
}

func (r *asked) meantFor() recipes.Epoch { return r.epoch }

// urgency puts newcomers behind waiters that have a node. A create in a writer's place is for a lock that is held, and comes before the
// writer's delete.
func (r *asked) urgency() urgency {
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
func (r *asked) joint() bool {
	claim, ok := r.effect.(recipes.Claim)
	return ok && claim.Joint(r.seat.layout.form())
}

func (r *asked) refuse() { r.seat.answer(recipes.Unknown{Epoch: r.epoch, Op: r.op}, nil) }

// turnover is the delete of a node. If a create of another seat in the same directory joins it while it is parked, both are one request.
type turnover struct {
	slot

	leave *asked
	enter *asked // nil: only the delete
}

// wanted is what a list request reads before it is made itself.
type wanted struct {
	barrier bool     // a write through the quorum comes first
	dirs    []string // no directory twice
	found   []*names // in each of them
	missing int      // listings that have not ended
	err     error    // why one of them has failed
}

// names are the contenders that a listing has found. All requests that it serves share them, and nothing writes to them.
type names struct {
	queue   []events.Name
	indexed bool // the queue is in the order of the texts

	mu      sync.Mutex
	members map[int][]events.Name // the queue as multi-locks know it, by the member that it is of
}

// own finds the node of an attempt, if there is one, by what its name begins with. The zero id finds none.
func (n *names) own(kind events.Kind, id guid) (name events.Name, ok bool) {
	if id == (guid{}) {
		return events.Name{}, false
	}
	mine := head(kind, id)
	from := 0
	if n.indexed {
		from, _ = slices.BinarySearchFunc(n.queue, mine, func(name events.Name, text string) int { return cmp.Compare(name.Text, text) })
	}
	for _, name := range n.queue[from:] {
		switch {
		case strings.HasPrefix(name.Text, mine):
			return name, true
		case n.indexed:
			return events.Name{}, false
		}
	}
	return events.Name{}, false
}

// as returns the queue as a multi-lock knows it: the directory is of that member.
func (n *names) as(member int) []events.Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	queue, known := n.members[member]
	if known {
		return queue
	}
	queue = slices.Clone(n.queue)
	for i := range queue {
		queue[i].Text = recipes.MemberName(member, queue[i].Text)
	}
	if n.members == nil {
		n.members = map[int][]events.Name{}
	}
	n.members[member] = queue
	return queue
}

// namesOf returns the contenders among the children of a directory, indexed or not.
func namesOf(children []string, indexed bool) *names {
	n := &names{indexed: indexed}
	for _, child := range children {
		if name, ok := events.ParseName(child); ok {
			n.queue = append(n.queue, name)
		}
	}
	if indexed {
		slices.SortFunc(n.queue, func(a, b events.Name) int { return cmp.Compare(a.Text, b.Text) })
	}
	return n
}

// worse returns the error that leaves something open, if one of the two does so.
func worse(a, b error) error {
	if a == nil {
		return b
	}
	if outcome, _ := zkerr.Classify(b); !outcome.Settled() {
		return b
	}
	return a
}

// crowded is the number of requests from which on it pays to index the names for them.
const crowded = 8
