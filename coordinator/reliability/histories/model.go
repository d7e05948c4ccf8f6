package histories

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation is about.
type kind uint8

const (
	kindAcquire kind = iota + 1 // a Grant was read
	kindHold                    // Valid returned true
	kindWrite                   // the token was shown, for a read or a write, to a resource that compares tokens
	kindTxn                     // a transaction of the acquisition was sent to the servers
	kindLose                    // a Lost was read
	kindRelease                 // Release was called, or the wait was over
	kindRead                    // what the resource holds was read
	kindAsk                     // Revoke was called; no worker's operation
	kindGone                    // a Revoke that began while this acquisition held returned nil
)

// operation is what a worker did, from the time of the call to that of the answer.
type operation struct {
	Path   string `json:"path"`
	Kind   kind   `json:"kind"`
	Worker int    `json:"worker"` // from 0, below maxWorkers
	Round  int32  `json:"round"`  // the worker's acquisition that it belongs to, from 1

	Permits int   `json:"permits,omitempty"` // of a semaphore
	Shares  bool  `json:"shares,omitempty"`  // it was asked for to read, together with others
	Writer  int64 `json:"writer,omitempty"`  // of a reader in a writer's place: the token of that writer
	Value   int64 `json:"value,omitempty"`   // what was read

	From    int32 `json:"from,omitempty"`    // of a reader in a writer's place: the round of the worker's write lock
	With    int   `json:"with,omitempty"`    // the number of other members of the multi-lock
	Revoked bool  `json:"revoked,omitempty"` // of a loss: Revoke had asked, and the grace ran out

	Token    int64  `json:"token,omitempty"`    // of the Grant
	Turn     uint64 `json:"turn,omitempty"`     // of the Grant: 0 unless the lock is cached
	Session  int64  `json:"session,omitempty"`  // of the Grant
	Accepted bool   `json:"accepted,omitempty"` // of a write and a transaction

	Call   int64 `json:"call"`
	Return int64 `json:"return"`
}

// fence grows from Grant to Grant. Holders of a cached lock that share a node have the same token.
type fence struct {
	token int64
	turn  uint64
}

func (op operation) fence() fence { return fence{op.Token, op.Turn} }

// after tells whether the fence is greater than the other.
func (f fence) after(other fence) bool {
	return f.token > other.token || f.token == other.token && f.turn > other.turn
}

// or returns the greater one.
func (f fence) or(other fence) fence {
	if other.after(f) {
		return other
	}
	return f
}

func (f fence) String() string { return fmt.Sprintf("%#x.%d", f.token, f.turn) }

// maxWorkers is how many workers a history may have.
const maxWorkers = 16

// The sides of a lock. A mutex and a semaphore have one.
const (
	toWrite = iota
	toRead
	sides
)

// side returns the operation's side.
func (op operation) side() int {
	if op.Shares {
		return toRead
	}
	return toWrite
}

// rounds are the rounds of the workers' acquisitions; 0 is none.
type rounds [maxWorkers]int32

// state is the model of one lock of any kind, and of the resource behind it. It is comparable, because the search compares states
// often.
//
// Holders show their fences to the resource. It refuses a writer with a smaller fence than it has seen, and never a reader. A
// reader that took a writer's place shows that writer's token: one of its own would be greater than the token of a writer that
// waits behind it. So what a reader has read does not change while it holds: a write would be by a second holder, or with an old
// token.
type state struct {
	kind    lockKind
	held    [sides]rounds // in which the workers hold
	over    [sides]rounds // the last ones that are over
	permits [maxWorkers]int
	wrote   fence // of the newest writer, or holder
	read    fence // the greatest fence of a reader
	seen    fence // the greatest fence that the resource has seen
	value   int64 // what the resource holds: the token of the writer that wrote it
	granted rounds
	asked   rounds // the value of granted at the latest Revoke
}

// admits tells for each kind of lock whether a Grant is in order: no holder excludes it, and its fence is new.
func (m state) admits(op operation) bool {
	switch m.kind {
	case readWrite:
		return m.admitsTo(op)
	case semaphore: // the holder is younger than all before it, whether or not they still hold
		return m.held[toWrite][op.Worker] == 0 && op.fence().after(m.wrote) && m.taken()+op.Permits <= mostPermits
	default: // a mutex, cached or not, an election, and an unfair lock: the model does not know which contender is next
		return m.held == [sides]rounds{} && op.fence().after(m.wrote)
	}
}

// admitsTo is admits for a read/write lock.
func (m state) admitsTo(op operation) bool {
	writes, reads := m.held[toWrite] != rounds{}, m.held[toRead] != rounds{}
	switch {
	case op.Shares && op.Writer != 0: // the writer may still be there, and no other can have written behind it yet
		others := m.held[toWrite]
		others[op.Worker] = 0
		return m.wrote.token == op.Writer && op.Token == op.Writer && others == rounds{}
	case op.Shares:
		return !writes && op.fence().after(m.wrote)
	default:
		return !writes && !reads && op.fence().after(m.wrote.or(m.read))
	}
}

// step returns the state after the operation, and whether the lock can have answered it so.
func (m state) step(op operation) (state, bool) {
	side := op.side()
	holds, fresh := m.held[side][op.Worker] == op.Round, op.Round > m.over[side][op.Worker]
	switch op.Kind {
	case kindAsk:
		m.asked = m.granted
		return m, true
	case kindAcquire:
		legal := fresh && m.admits(op)
		m.granted[op.Worker] = max(m.granted[op.Worker], op.Round)
		m.held[side][op.Worker], m.permits[op.Worker] = op.Round, op.Permits
		if op.Shares {
			m.read = m.read.or(op.fence())
			return m, legal
		}
		m.wrote = op.fence()
		return m, legal
	case kindHold:
		return m, holds
	case kindGone:
		return m, !holds
	case kindLose: // a Revoke before the Grant is no reason for a loss
		untold := op.Revoked && m.asked[op.Worker] < op.Round && (op.From == 0 || m.asked[op.Worker] < op.From)
		return m.free(op), holds && !untold
	case kindRelease: // or a withdrawal
		return m.free(op), fresh || holds && m.kind == semaphore
	default:
		return m.use(op)
	}
}

// use is step for an operation on the resource. A semaphore has no resource that one of several holders could write.
func (m state) use(op operation) (state, bool) {
	switch {
	case m.kind == semaphore:
		return m, false
	case op.Kind == kindWrite && !op.Accepted:
		return m, m.seen.after(op.fence())
	case op.Kind == kindWrite:
		legal := !m.seen.after(op.fence())
		m.seen, m.value = op.fence(), op.Token
		return m, legal
	case op.Kind == kindRead && m.kind == readWrite: // other locks have no readers
		m.seen = m.seen.or(op.fence())
		return m, op.Value == m.value
	case op.Kind == kindTxn && m.kind != readWrite:
		// The node may stay for a while after its owner was told of a loss, but not beside a newer Grant.
		return m, !op.Accepted || op.fence() == m.wrote
	default:
		return m, false
	}
}

// free is the state in which the operation's acquisition holds nothing.
func (m state) free(op operation) state {
	side := op.side()
	if m.held[side][op.Worker] == op.Round {
		m.held[side][op.Worker], m.permits[op.Worker] = 0, 0
	}
	m.over[side][op.Worker] = op.Round
	return m
}

// taken is how many permits are held.
func (m state) taken() (n int) {
	for _, held := range m.permits {
		n += held
	}
	return n
}

func (m state) String() string {
	text := fmt.Sprintf("granted %v, to readers %v; seen %v, value %#x", m.wrote, m.read, m.seen, m.value)
	for side, what := range []string{"held", "read"} {
		for worker, round := range m.held[side] {
			if round != 0 {
				text += fmt.Sprintf("; %s by %d/%d", what, worker, round)
			}
		}
	}
	if m.kind == semaphore {
		text += fmt.Sprintf("; %d of %d taken", m.taken(), mostPermits)
	}
	return text
}

func (op operation) String() string {
	who := fmt.Sprintf("%d/%d", op.Worker, op.Round)
	answer := map[bool]string{true: "accepted", false: "refused"}[op.Accepted]
	if op.Shares {
		who += ", a reader,"
	}
	if op.With > 0 {
		who += fmt.Sprintf(" with %d more", op.With)
	}
	switch op.Kind {
	case kindAcquire:
		return fmt.Sprintf("%s granted %v", who, op.fence())
	case kindHold:
		return who + " is valid"
	case kindWrite:
		return fmt.Sprintf("%s write %v: %s", who, op.fence(), answer)
	case kindTxn:
		return fmt.Sprintf("%s txn %v: %s", who, op.fence(), answer)
	case kindLose:
		return who + map[bool]string{true: " was revoked", false: " lost"}[op.Revoked]
	case kindAsk:
		return "Revoke asked"
	case kindGone:
		return who + " is gone, as was asked"
	case kindRelease:
		return who + " released"
	case kindRead:
		return fmt.Sprintf("%s read %#x under %v", who, op.Value, op.fence())
	default:
		return "?"
	}
}

func (op operation) place() place { return place{op.Path, op.Worker, op.Call, op.Return} }

// model is the model for the search. The path tells the kind of lock.
func (operation) model() porcupine.Model {
	return porcupine.Model{
		Partition: partition[operation],
		Init:      func() any { return nil },
		Step: func(before, input, _ any) (bool, any) {
			op := input.(operation)
			now, begun := before.(state)
			if !begun {
				now.kind = kindAt(op.Path)
			}
			next, legal := now.step(op)
			return legal, next
		},
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}
