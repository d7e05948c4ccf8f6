package recipes

import "time"

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
