// Package duty decides what happens to a command when its lock ends: when it is asked to
// end, when it is killed, and when the lock may be released. Its first promise:
//
//	When the lock is lost, the command is dead before the next holder starts.
//
// The package makes no system calls and reads no clock. Its caller records what has
// happened, calls Next, carries out what Next returns before it does anything else, and
// calls Next again at the time that Next returns. Nothing may block the caller in
// between, least of all its own output.
package duty

import "time"

// Act is something to do. "The command" includes everything that it has started.
type Act int

// The acts that Next returns.
const (
	Ask     Act = iota + 1 // send the command the signal that asks it to end
	Kill                   // send it KILL; repeated until it is dead
	Lose                   // report that the lock is lost
	Remind                 // report that other processes of the group continue, and the lock is held for them
	Stay                   // report that the command is dead, and the lock is held until Until
	Release                // the command is dead: release the lock, if it is still held
	Leave                  // KILL does not end the command and the lock is lost: exit anyway
)

func (a Act) String() string {
	return [...]string{"", "ask", "kill", "lose", "remind", "stay", "release", "leave"}[a]
}

const (
	// lead is how long before the deadline of a revocation KILL is sent, not counting the
	// time that signalling takes. At the deadline the library deletes the node, and the
	// next holder starts.
	lead = 20 * time.Millisecond
	// repeat is the time between two KILLs. The first one may have failed.
	repeat = 100 * time.Millisecond
)

// Duty is the state of the lock and the command. The caller sets the exported fields, and
// calls Next after each change. A zero time means that the event has not happened.
type Duty struct {
	Grace   time.Duration // between the signal and KILL; 0: KILL at once
	Timeout time.Duration // the session timeout
	Took    time.Duration // how long the latest Ask took; finding every process takes longer the more there are
	Leaves  bool          // other processes of the group may continue without the lock
	Until   time.Time     // the lock is held until then, unless its end is requested

	Lease   time.Time // the lock is safe until then without further contact; not after Due
	Revoked bool      // a revocation was requested, and the command is revocable
	Due     time.Time // the deadline of the revocation, if it has one
	Lost    bool      // the library has reported the loss
	Ended   time.Time // when the command itself ended; others of its group may outlive it
	Empty   bool      // no process is left of the group

	stopped time.Time // the latest TERM or INT before Ended, otherwise the first signal after it
	hung    time.Time // the latest HUP or QUIT before Ended

	asked time.Time
	given bool      // the lock is lost or about to be, and counts as lost from now on
	until time.Time // if given: when to send KILL
	first time.Time // the first KILL
	last  time.Time // the latest KILL

	reminded bool
	done     bool // the command was dead before the lock was lost
}

// Signaled records that a signal was forwarded that ends most programs. request is true
// for signals that some programs handle without ending: HUP, to reload their
// configuration, and QUIT, on which a Java program prints its stacks.
func (d *Duty) Signaled(request bool, now time.Time) {
	switch {
	case d.Ended.IsZero() && request:
		d.hung = now
	case d.Ended.IsZero() || d.stopped.IsZero():
		d.stopped = now
	}
}

// GivenUp reports whether Next has returned Lose.
func (d *Duty) GivenUp() bool { return d.given }

// Done reports whether the command was dead before the lock was lost. Once true it stays
// true, since the number of its process group may be reused.
func (d *Duty) Done() bool { return d.done }

// Ending reports whether the command was asked to end, or has ended because of a signal.
// This cannot be undone. Processes that outlive a command which ended by itself do not
// count as ending.
func (d *Duty) Ending() bool { return d.given || !d.asked.IsZero() || !d.Ended.IsZero() && d.caused() }

// Next returns what to do now, in this order, and when to call Next again.
func (d *Duty) Next(now time.Time) (do []Act, again time.Time) {
	// A lease that is renewed after this comes too late, because the command is asked to
	// end.
	loses := !d.given && (d.Lost || !now.Before(d.giveUpAt()))
	if loses {
		d.given, d.until = true, earlier(d.Lease, now.Add(d.Grace))
	}
	asks := (d.given || d.Revoked) && d.asked.IsZero() && d.first.IsZero()
	if asks {
		d.asked = now
	}
	at := d.killAt()
	switch {
	case d.Empty:
	case !now.Before(at):
		if !now.Before(d.last.Add(repeat)) {
			do, d.last = append(do, Kill), now
		}
		if d.first.IsZero() {
			d.first = now
		}
	case asks:
		do = append(do, Ask)
	}
	// Report after the signal, so that the report cannot delay the signal.
	if loses {
		do = append(do, Lose)
	}
	orphaned := !d.Ended.IsZero() && !d.caused() // it has ended by itself; its group may continue
	if d.Empty || orphaned && d.Leaves {
		if d.given || d.caused() || !now.Before(d.Until) {
			d.done = d.done || !d.given
			return append(do, Release), time.Time{}
		}
		if !d.done {
			do, d.done = append(do, Stay), true
		}
		return do, earlier(d.Until, d.giveUpAt())
	}
	if d.reminds(orphaned) && !now.Before(d.Ended.Add(d.Timeout)) {
		do, d.reminded = append(do, Remind), true
	}
	if d.given && !d.first.IsZero() && !now.Before(d.first.Add(d.Timeout)) {
		do = append(do, Leave)
	}
	switch {
	case !d.last.IsZero():
		return do, d.last.Add(repeat)
	case !d.given:
		at = earlier(at, d.giveUpAt())
	}
	if d.reminds(orphaned) {
		at = earlier(at, d.Ended.Add(d.Timeout))
	}
	return do, at
}

// reminds reports whether a Remind is due: other processes of the group live on, by
// themselves or because KILL does not end them.
func (d *Duty) reminds(orphaned bool) bool {
	return !d.reminded && !d.given && (orphaned || !d.Ended.IsZero() && !d.first.IsZero())
}

// caused reports whether the command has ended because of a loss, a revocation or a
// signal. HUP and QUIT count if the end follows within the session timeout.
func (d *Duty) caused() bool {
	return d.given || d.Revoked || !d.stopped.IsZero() || !d.hung.IsZero() && d.Ended.Sub(d.hung) < d.Timeout
}

// Overdue reports whether the deadline of a revocation ends the lock before the lease
// does. The library then gives the deadline as the end of the lease, too. A caller that
// converts each of them to another clock may get a slightly earlier lease.
func (d *Duty) Overdue() bool { return !d.Due.IsZero() && !d.Lease.Before(d.Due.Add(-lead)) }

// giveUpAt returns when the lock counts as lost if nothing changes.
func (d *Duty) giveUpAt() time.Time {
	switch {
	case d.Overdue(): // the command was already asked to end
		return d.Due.Add(-lead - d.Took)
	case !d.Due.IsZero():
		return earlier(d.Lease.Add(-d.Grace), d.Due.Add(-lead-d.Took))
	}
	return d.Lease.Add(-d.Grace)
}

// killAt returns when KILL is due.
func (d *Duty) killAt() time.Time {
	if !d.first.IsZero() {
		return d.first
	}
	at := d.Lease
	if d.given {
		at = d.until
	}
	if !d.Due.IsZero() {
		at = earlier(at, d.Due.Add(-lead-d.Took))
	}
	if !d.Ended.IsZero() && d.caused() { // the rest of the group
		told := later(d.Ended, later(d.asked, later(d.stopped, d.hung)))
		at = earlier(at, told.Add(d.Grace))
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
