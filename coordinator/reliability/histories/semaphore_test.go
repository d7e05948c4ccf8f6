package histories_test

import "fmt"

// mostPermits is how many the semaphore has.
const mostPermits = 3

// permits is the model of a semaphore. Whoever is let in is younger than all who were before, whether these still hold
// anything or not.
type permits struct {
	rounds  [maxWorkers]int32 // in which they hold permits; 0 if they hold none
	held    [maxWorkers]int
	granted int64 // the greatest token so far
	over    [maxWorkers]int32
}

func (m permits) next(op operation) (state, bool) { return answer(m.step(op)) }

func (m permits) step(op operation) (permits, bool) {
	holds := m.rounds[op.Worker] == op.Round
	fresh := op.Round > m.over[op.Worker]
	switch op.Kind {
	case kindAcquire:
		legal := fresh && m.rounds[op.Worker] == 0 && op.Token > m.granted && m.taken()+op.Permits <= mostPermits
		m.rounds[op.Worker], m.held[op.Worker], m.granted = op.Round, op.Permits, op.Token
		return m, legal
	case kindHold:
		return m, holds
	case kindLose, kindRelease:
		if holds {
			m.rounds[op.Worker], m.held[op.Worker] = 0, 0
		}
		m.over[op.Worker] = op.Round
		return m, holds || op.Kind == kindRelease && fresh
	case kindGone:
		return m, !holds
	default:
		return m, false // there is nothing behind it that one of several could write
	}
}

func (m permits) taken() int {
	n := 0
	for _, held := range m.held {
		n += held
	}
	return n
}

func (m permits) String() string {
	text := fmt.Sprintf("%d of %d taken; granted %#x", m.taken(), mostPermits, m.granted)
	for worker, n := range m.held {
		if n > 0 {
			text += fmt.Sprintf("; %d by %d/%d", n, worker, m.rounds[worker])
		}
	}
	return text
}
