package session

import (
	"slices"
	"sync"
	"time"
)

// This file is about how much a look asks for at a time. Its answers come on the connection that proves the lease, one behind the
// other, and the size of an answer is unknown before it comes.

const (
	// mostLooks bounds the looks under way at a time. Each takes one of the places of requests, for as long as all of its readings
	// take.
	mostLooks = 8
	// mostReadings bounds the readings of all looks that are under way at a time. A server executes the requests of a session one after
	// the other, so locks' requests wait behind at most so many readings.
	mostReadings = 64
	// mostBytes bounds the bytes of their answers, as far as the answers before them tell. A longer answer is read alone.
	mostBytes = 256 << 10
	// firstGuess is the size of an answer of which nothing is known: four readings begin a look.
	firstGuess = mostBytes / 4
	// lull is the time without a reading after which the next look does not learn from the one before.
	lull = time.Second
)

// window bounds how many readings may be under way, by their bytes. It guesses the size of the next answer: that of the largest recent
// one, which each smaller one halves. The zero value knows nothing.
type window struct {
	guess int
	last  time.Time // when the last answer came
}

// width returns how many readings may be under way.
func (w *window) width() int { return max(1, mostBytes/max(1, w.guess)) }

// resumes is called when a reading is to begin while none is under way.
func (w *window) resumes(now time.Time) {
	if now.Sub(w.last) >= lull {
		w.guess = max(w.guess, firstGuess)
	}
}

// answered takes the size of an answer.
func (w *window) answered(size int, now time.Time) {
	w.guess, w.last = max(size, w.guess/2), now
}

// flow is a group of readings that share a window.
type flow struct {
	window

	underWay int
}

// readings has a place for each reading of a look that is under way. Each reading belongs to one of its flows, because listings are
// short where data are long. The data of one directory are also a flow, which learns nothing from others.
type readings struct {
	now     func() time.Time
	mu      sync.Mutex
	changed sync.Cond
	all     int // under way
	names   flow
	data    flow
}

func newReadings(now func() time.Time) *readings {
	r := &readings{now: now}
	r.changed.L = &r.mu
	return r
}

// begin waits for a place in each flow, which end gives back. It does not wait long: the connection answers, or ends.
func (r *readings) begin(flows ...*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range flows {
		if f.underWay == 0 {
			f.resumes(r.now())
		}
	}
	full := func(f *flow) bool { return f.underWay >= f.width() }
	for r.all >= mostReadings || slices.ContainsFunc(flows, full) {
		r.changed.Wait()
	}
	r.all++
	for _, f := range flows {
		f.underWay++
	}
}

// answered takes the size of an answer before the end of its reading.
func (r *readings) answered(size int, flows ...*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range flows {
		f.answered(size, r.now())
	}
}

func (r *readings) end(flows ...*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	for _, f := range flows {
		f.underWay--
	}
	r.changed.Broadcast()
}
