package histories

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// history is what all workers have noted. It is safe for concurrent use.
type history struct {
	// halted says that a worker's process may be halted at any moment, so that it hears of a loss late. What counts then
	// is when Valid was last true.
	halted bool
	// clock tells the time of a call or an answer; nil: the history only counts.
	clock func() int64

	// grace is how long a Lost may lie in its channel before it is read.
	grace time.Duration

	mu      sync.Mutex
	count   int64
	times   []moment // in ascending order
	ops     []operation
	notes   []note
	tenures map[string][]*tenure // granted and not over, by path
	ended   map[int64]int64      // when a session was ended by force
}

// moment is the count that the clock of a counting history first showed at a time.
type moment struct {
	at    time.Time
	count int64
}

// note is a fault that struck the workers.
type note struct {
	count int64
	text  string
}

// newHistory is for workers of one process. Its clock counts: that orders even events at the same instant of virtual
// time.
func newHistory(grace time.Duration) *history {
	return &history{grace: grace, tenures: map[string][]*tenure{}, ended: map[int64]int64{}}
}

// newHaltedHistory is for processes that may be halted, and share the clock of the machine.
func newHaltedHistory() *history {
	h := newHistory(0)
	h.halted, h.clock = true, machineTime
	return h
}

// now returns a later time than ever before.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tick()
}

// tick is now with mu held.
func (h *history) tick() int64 {
	h.count++
	if h.clock != nil {
		h.count = max(h.count, h.clock())
		return h.count
	}
	if now := time.Now(); len(h.times) == 0 || now.After(h.times[len(h.times)-1].at) {
		h.times = append(h.times, moment{now, h.count})
	}
	return h.count
}

// delivered returns when what is read now may have been put into its channel. The order in which goroutines are told is
// not the order in which they run:
//
//  1. The holder's Lost is put into its channel, and wakes the holder's goroutine.
//  2. The node is given up, and the next holder's Grant is put into its channel.
//  3. The next holder's goroutine runs first.
func (h *history) delivered() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick()
	early := time.Now().Add(-h.grace)
	i, _ := slices.BinarySearchFunc(h.times, early, func(m moment, at time.Time) int { return m.at.Compare(at) })
	return h.times[min(i, len(h.times)-1)].count
}

// note remembers a fault, for the reader of a failure.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{h.tick(), fmt.Sprintf(format, args...)})
}

// add notes an operation that has just been answered.
func (h *history) add(op operation) {
	op.Return = h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// take returns what was noted since the last take.
func (h *history) take() (ops []operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops, h.ops = h.ops, nil
	return ops
}

// size returns how many operations were noted.
func (h *history) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// holder returns a worker that was granted the lock and has neither lost it nor given it back.
func (h *history) holder(path string) (worker int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tenures[path]) == 0 {
		return 0, false
	}
	return h.tenures[path][0].op.Worker, true
}

// end notes that a session is ended by force. No client can be prepared for that: from now on what it held may be
// another contender's.
func (h *history) end(session int64) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, before := h.ended[session]; !before { // its client may not have learnt of the first end yet
		h.ended[session] = now
	}
}

// operations returns the history for the search, without what is held in a session after its forced end.
func (h *history) operations() []operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	type owner struct {
		worker int
		round  int32
	}
	forced := map[owner]int64{}
	for _, op := range h.ops {
		if at, ok := h.ended[op.Session]; ok && op.Kind == kindAcquire {
			forced[owner{op.Worker, op.Round}] = at
		}
	}
	var ops []operation
	for _, op := range h.ops {
		if at, ok := forced[owner{op.Worker, op.Round}]; ok && op.Return > at {
			switch {
			case op.Kind == kindHold:
				continue
			case op.Kind == kindLose, op.Kind == kindRelease, op.Kind == kindAcquire && op.Turn > 0: // a turn asks no server
				op.Call = min(op.Call, at)
			}
		}
		ops = append(ops, op)
	}
	return ops
}
