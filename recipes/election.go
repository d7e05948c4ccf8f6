package recipes

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Leads returns the leader of an election: the first candidate in the queue, which leads
// or will as soon as it learns that it is its turn. While its node exists, no other
// candidate leads. Leads returns false if the queue is empty. The queue may be in any
// order.
func Leads(queue []events.Name) (events.Name, bool) {
	if len(queue) == 0 {
		return events.Name{}, false
	}
	return slices.MinFunc(queue, events.CompareNames), true
}

// ShortTerm is the length below which a term is short: the candidate then pauses before
// it campaigns again.
const ShortTerm = time.Second

const (
	firstTermPause = 100 * time.Millisecond // doubled by each further short term in a row
	mostTermPause  = 10 * time.Second
)

// Terms counts the consecutive short terms of a candidate. The zero value is ready to
// use.
type Terms struct{ short int }

// Ended notes the end of a term, and returns the pause before the next campaign. After a
// lost term there is none, because the body did not end it. luck, a random number from 0
// to 1, shortens the pause by up to half, so that candidates do not move in lockstep.
func (t *Terms) Ended(lasted time.Duration, lost bool, luck float64) time.Duration {
	switch {
	case lost:
		return 0
	case lasted >= ShortTerm:
		t.short = 0
		return 0
	}
	const doublings = 7 // enough to reach mostTermPause
	full := min(firstTermPause<<min(t.short, doublings), mostTermPause)
	t.short++
	return full - time.Duration(luck*float64(full/2))
}
