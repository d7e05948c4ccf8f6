package session

import "time"

// clock returns a time that continues while the machine is suspended. The time of package
// time does not: the process would wake up after an hour and find that none has passed.
// Only differences mean anything.
type clock struct {
	// asleep returns for how long the machine has been suspended since some moment.
	// It never decreases.
	asleep func() time.Duration
}

// now takes the ordinary time first: a suspend that comes in between counts.
func (c clock) now() time.Time {
	now := time.Now()
	return now.Add(c.asleep())
}

// ordinary returns what time.Now shows at a moment of this clock, if the machine is not
// suspended until then.
func (c clock) ordinary(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-c.asleep())
}
