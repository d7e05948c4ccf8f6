package session

import "time"

// clock is a clock that keeps running while the computer is suspended. The clock of
// package time stops: after an hour of suspension, it shows that no time has passed. Only
// differences are meaningful.
type clock struct {
	// asleep returns how long the computer has been suspended since some moment. It never
	// decreases.
	asleep func() time.Duration
}

// now reads the ordinary time first, so that a suspend between the two readings counts.
func (c clock) now() time.Time {
	now := time.Now()
	return now.Add(c.asleep())
}

// ordinary converts a time of this clock to what time.Now will return then, unless the
// computer is suspended before.
func (c clock) ordinary(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-c.asleep())
}
