package session

import (
	"sync"
	"time"
)

// This file is how much a look asks for at a time. Its answers come on the connection that proves the lease, one behind the other, and
// no answer tells of its size beforehand.

const (
	// mostLooks bounds the looks under way at a time. Each takes one of the places
	// that requests have, for as long as all of its readings take.
	mostLooks = 8
	// mostReadings bounds the readings of all looks that are under way at a time. A
	// server executes the requests of a session one after the other, so it is what
	// those of locks have to wait behind at the most.
	mostReadings = 64
	// mostBytes bounds the bytes of their answers, as far as the answers before them tell. A longer one is read alone.
	mostBytes = 256 << 10
	// firstGuess is the size of an answer of which nothing is known: four readings begin a look.
	firstGuess = mostBytes / 4
	// lull is for how long nothing is read between two looks that do not learn from each other.
	lull = time.Second
)

// window is how many readings may be under way, as far as their bytes go. It guesses the size of the next answer: that of the largest
// lately, which each smaller one halves. The zero value knows nothing.
type window struct {
	guess int
	last  time.Time // when the last answer came
}

// width returns how many readings may be under way.
func (w *window) width() int { return max(1, mostBytes/max(1, w.guess)) }

// resumes is told that a reading is to begin while none is under way.
func (w *window) resumes(now time.Time) {
	if now.Sub(w.last) >= lull {
		w.guess = max(w.guess, firstGuess)
	}
}

// answered is told of an answer.
func (w *window) answered(size int, now time.Time) {
	w.guess, w.last = max(size, w.guess/2), now
}

// reads is what is read. Listings are short where data is long, so that neither is a guess at the other.
type reads uint8

const (
	readsNames reads = iota
	readsData
	readsKinds
)

// readings has a place for each reading of a look that is under way.
type readings struct {
	now      func() time.Time
	mu       sync.Mutex
	changed  sync.Cond
	windows  [readsKinds]window
	underWay [readsKinds]int
}

func newReadings(now func() time.Time) *readings {
	r := &readings{now: now}
	r.changed.L = &r.mu
	return r
}

// begin waits for a place, which end gives back. That is soon: the connection answers, or ends.
func (r *readings) begin(of reads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underWay[of] == 0 {
		r.windows[of].resumes(r.now())
	}
	for r.underWay[readsNames]+r.underWay[readsData] >= mostReadings || r.underWay[of] >= r.windows[of].width() {
		r.changed.Wait()
	}
	r.underWay[of]++
}

// answered is told of an answer before the end of its reading.
func (r *readings) answered(of reads, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows[of].answered(size, r.now())
}

func (r *readings) end(of reads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[of]--
	r.changed.Broadcast()
}
