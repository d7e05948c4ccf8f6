package recipes

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Leads returns which of an election's candidates leads, or will as soon as it learns
// that its turn has come: the first in the queue. It returns false if there are none. As
// long as that node exists, no other candidate leads. The queue is in any order.
func Leads(queue []events.Name) (events.Name, bool) {
	if len(queue) == 0 {
		return events.Name{}, false
	}
	return slices.MinFunc(queue, events.CompareNames), true
}

// ShortTerm is the length of a term below which the candidate pauses before it campaigns
// again.
const ShortTerm = time.Second

const (
	firstTermPause = 100 * time.Millisecond // each further short term in a row doubles it
	mostTermPause  = 10 * time.Second
)

// Terms counts the short terms of a candidate that campaigns again and again. The zero
// value has seen none.
type Terms struct{ short int }

// Ended notes a term of that length, and returns the pause before the next campaign. A
// lost term has no pause, because the body did not end it. luck is a random number from 0
// to 1, which makes the pause up to half shorter, so that candidates do not move in step.
func (t *Terms) Ended(lasted time.Duration, lost bool, luck float64) time.Duration {
	switch {
	case lost:
		return 0
	case lasted >= ShortTerm:
		t.short = 0
		return 0
	}
	const doublings = 7 // reach mostTermPause
	full := min(firstTermPause<<min(t.short, doublings), mostTermPause)
	t.short++
	return full - time.Duration(luck*float64(full/2))
}
