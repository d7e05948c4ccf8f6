package histories_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation is about.
type kind uint8

const (
	kindAcquire kind = iota + 1 // a Grant was read
	kindHold                    // Valid said yes
	kindWrite                   // the token was shown, for a read or a write, to a resource that compares tokens
	kindGuard                   // a transaction of the acquisition was sent to the servers
	kindLose                    // a Lost was read
	kindRelease                 // Release was called, or the wait was over
	kindRead                    // what the resource holds was read
	kindAsk                     // Revoke was called; it is nobody's
	kindGone                    // a Revoke that began when this one held returned nil
)

// operation is what a worker did, from the time of the call to that of the answer.
type operation struct {
	Path   string `json:"path"`
	Kind   kind   `json:"kind"`
	Worker int    `json:"worker"` // from 0, below maxWorkers
	Round  int32  `json:"round"`  // which of the worker's acquisitions it belongs to, from 1

	Permits int   `json:"permits,omitempty"` // of a semaphore
	Shares  bool  `json:"shares,omitempty"`  // it was asked for together with others, to read
	Writer  int64 `json:"writer,omitempty"`  // of a reader in a writer's place: the token of that writer
	Value   int64 `json:"value,omitempty"`   // what was read

	Upgrades bool  `json:"upgrades,omitempty"` // it reads, and is the only one who may come to write
	From     int32 `json:"from,omitempty"`     // the round in which the worker holds that in whose place this is, to write or to read
	With     int   `json:"with,omitempty"`     // how many other locks are had together with it
	Revoked  bool  `json:"revoked,omitempty"`  // of a loss: somebody had asked, and the grace ran out

	Token    int64 `json:"token,omitempty"`    // of the Grant
	Session  int64 `json:"session,omitempty"`  // of the Grant
	Accepted bool  `json:"accepted,omitempty"` // of a write and a transaction

	Call   int64 `json:"call"`
	Return int64 `json:"return"`
}

// maxWorkers is how many workers a history may have.
const maxWorkers = 16

// fencedMutex is the model of one lock and of the resource behind it. It is comparable, as the search compares states
// often.
type fencedMutex struct {
	worker  int
	round   int32 // of the holder; 0 if nobody holds
	granted int64 // the token of the newest Grant
	seen    int64 // the greatest token that the resource has been shown
	over    [maxWorkers]int32
}

// holds tells whether the operation's acquisition is the holder.
func (m fencedMutex) holds(op operation) bool { return m.round == op.Round && m.worker == op.Worker }

// step returns the state after the operation, and whether a fenced mutex can have answered it so.
func (m fencedMutex) step(op operation) (fencedMutex, bool) {
	switch op.Kind {
	case kindAcquire:
		legal := m.round == 0 && op.Token > m.granted && op.Round > m.over[op.Worker]
		m.worker, m.round, m.granted = op.Worker, op.Round, op.Token
		return m, legal
	case kindHold:
		return m, m.holds(op)
	case kindWrite:
		if !op.Accepted {
			return m, op.Token < m.seen
		}
		legal := op.Token >= m.seen
		m.seen = op.Token
		return m, legal
	case kindGuard:
		// The node may be there for a while after its owner has been told of a loss, but not beside a newer Grant.
		return m, !op.Accepted || op.Token == m.granted
	case kindLose:
		legal := m.holds(op)
		m.round, m.over[op.Worker] = 0, op.Round
		return m, legal
	case kindRelease: // or a withdrawal
		legal := op.Round > m.over[op.Worker]
		if m.holds(op) {
			m.round = 0
		}
		m.over[op.Worker] = op.Round
		return m, legal
	case kindGone:
		return m, !m.holds(op)
	default:
		return m, false // a mutex has no readers
	}
}

func (m fencedMutex) String() string {
	if m.round == 0 {
		return fmt.Sprintf("free; granted %#x, seen %#x", m.granted, m.seen)
	}
	return fmt.Sprintf("held by %d/%d; granted %#x, seen %#x", m.worker, m.round, m.granted, m.seen)
}

func (op operation) String() string {
	who := fmt.Sprintf("%d/%d", op.Worker, op.Round)
	answer := map[bool]string{true: "accepted", false: "refused"}[op.Accepted]
	switch {
	case op.Upgrades:
		who += ", an upgradable reader,"
	case op.Shares:
		who += ", a reader,"
	case op.From != 0:
		who += fmt.Sprintf(", the upgrade of %d,", op.From)
	}
	if op.With > 0 {
		who += fmt.Sprintf(" with %d more", op.With)
	}
	switch op.Kind {
	case kindAcquire:
		return fmt.Sprintf("%s granted %#x", who, op.Token)
	case kindHold:
		return who + " is valid"
	case kindWrite:
		return fmt.Sprintf("%s write %#x: %s", who, op.Token, answer)
	case kindGuard:
		return fmt.Sprintf("%s txn %#x: %s", who, op.Token, answer)
	case kindLose:
		return who + map[bool]string{true: " was revoked", false: " lost"}[op.Revoked]
	case kindAsk:
		return "somebody asked"
	case kindGone:
		return who + " is gone, as was asked"
	case kindRelease:
		return who + " released"
	case kindRead:
		return fmt.Sprintf("%s read %#x under %#x", who, op.Value, op.Token)
	default:
		return "?"
	}
}

// state is one of the models.
type state interface {
	// next returns the state after the operation, and whether the lock can have answered it so.
	next(op operation) (state, bool)
}

func (m fencedMutex) next(op operation) (state, bool) { return answer(m.step(op)) }

// answer is a step of any model.
func answer[S state](s S, legal bool) (state, bool) { return s, legal }

// newState returns the model of a lock of which nothing has happened yet. The path tells what kind of lock it is.
func newState(path string) state {
	switch kindAt(path) {
	case readWrite:
		return fencedReadWrite{}
	case semaphore:
		return permits{}
	default:
		return fencedMutex{} // an election, and an unfair lock, too: that is fenced, and who comes next is not in the model
	}
}

// model is the models in the terms of the search, with a history for each lock.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			places := map[string]int{}
			var parts [][]porcupine.Operation
			for _, op := range all {
				path := op.Input.(operation).Path
				i, ok := places[path]
				if !ok {
					i = len(parts)
					places[path] = i
					parts = append(parts, nil)
				}
				parts[i] = append(parts[i], op)
			}
			return parts
		},
		Init: func() any { return nil },
		Step: func(before, input, _ any) (bool, any) {
			op := input.(operation)
			now, begun := before.(state)
			if !begun {
				now = asked{lock: newState(op.Path)}
			}
			next, legal := now.next(op)
			return legal, next
		},
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}
