package duty

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story plays a Duty with a session timeout of 10 s and a lease until 9 s. at has what
// happens at each time. The acts are collected until the command is dead.
type story struct {
	grace time.Duration
	at    map[time.Duration]func(d *Duty)
	deaf  bool // the command does not end when asked to
	tough bool // nor by KILL

	leaves bool
	until  time.Duration
}

// step is an act, and when it was due.
type step struct {
	at  time.Duration
	act Act
}

func (s step) String() string { return fmt.Sprint(s.at, " ", s.act) }

// play calls Next at each time that Next has returned, and whenever something happens.
// clock has the current time.
func (s story) play(clock *time.Duration) (d *Duty, did []step) {
	d = &Duty{Grace: s.grace, Timeout: 10 * time.Second, Leaves: s.leaves, Lease: origin(9 * time.Second)}
	if s.until > 0 {
		d.Until = origin(s.until)
	}
	kills := 0
	for at := time.Duration(0); at < 40*time.Second; {
		*clock = at
		if happens := s.at[at]; happens != nil {
			happens(d)
		}
		do, again := d.Next(origin(at))
		for _, act := range do {
			if act != Kill || kills < 3 {
				did = append(did, step{at, act})
			}
			switch act {
			case Release, Leave:
				return d, did
			case Ask:
				d.Empty = !s.deaf
			case Kill:
				kills++
				d.Empty = !s.tough
			case Lose, Remind, Stay:
			}
		}
		next := at + time.Millisecond
		if !d.Empty || d.Done() {
			next = max(next, again.Sub(origin(0)))
		}
		for other := range s.at {
			if other > at {
				next = min(next, other)
			}
		}
		at = next
	}
	return d, did
}

func origin(at time.Duration) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(at)
}

// For each way in which a lock ends, each command and each grace, the command is dead in
// time.
func TestEachEnd(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	type events = map[time.Duration]func(d *Duty)
	lost := func(d *Duty) { d.Lost = true }
	empty := func(d *Duty) { d.Empty = true }
	now := time.Duration(0) // set by play
	ended := func(d *Duty) { d.Ended = origin(now) }
	both := func(d *Duty) { ended(d); empty(d) }
	stopped := func(d *Duty) { d.Signaled(false, origin(now)) }
	hung := func(d *Duty) { d.Signaled(true, origin(now)) }
	revoked := func(due time.Duration) func(d *Duty) {
		return func(d *Duty) {
			if d.Revoked = true; due > 0 {
				d.Due = origin(due)
			}
		}
	}
	renewed := func(until time.Duration) func(d *Duty) {
		return func(d *Duty) { d.Lease = origin(until) }
	}
	for _, test := range []struct {
		name  string
		story story
		want  string
	}{
		{"the lease runs out", story{grace: 1 * s}, "8s ask, 8s lose, 8.001s release"},
		{"the same, of a deaf command", story{grace: 1 * s, deaf: true}, "8s ask, 8s lose, 9s kill, 9.001s release"},
		{"the same, without a grace", story{deaf: true}, "9s kill, 9s lose, 9.001s release"},
		{"the library reports it first", story{grace: 1 * s, deaf: true, at: events{9 * s: lost}}, "8s ask, 8s lose, 9s kill, 9.001s release"},
		{"the lease is renewed", story{grace: 1 * s, at: events{5 * s: renewed(14 * s)}}, "13s ask, 13s lose, 13.001s release"},
		{"the lease is renewed too late", story{grace: 1 * s, deaf: true, at: events{8500 * ms: renewed(17 * s)}}, "8s ask, 8s lose, 9s kill, 9.001s release"},
		{"the lease gets shorter", story{grace: 1 * s, deaf: true, at: events{5 * s: renewed(5 * s)}}, "5s kill, 5s lose, 5.001s release"},
		// A caller that was halted past the end of the lease sees that, too.
		{
			"there is no time to ask", story{grace: 1 * s, deaf: true, at: events{5 * s: renewed(4 * s)}},
			"5s kill, 5s lose, 5.001s release",
		},
		{"lost early", story{grace: 1 * s, deaf: true, at: events{3 * s: lost}}, "3s ask, 3s lose, 4s kill, 4.001s release"},
		{"lost early, without a grace", story{deaf: true, at: events{3 * s: lost}}, "3s kill, 3s lose, 3.001s release"},
		{"lost shortly before the grace", story{grace: 2 * s, deaf: true, at: events{6999 * ms: lost}}, "6.999s ask, 6.999s lose, 8.999s kill, 9s release"},
		{"revoked", story{grace: 1 * s, at: events{2 * s: revoked(4 * s)}}, "2s ask, 2.001s release"},
		{"revoked, deaf", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(4 * s), 4 * s: lost}}, "2s ask, 3.98s kill, 3.98s lose, 3.981s release"},
		{"revoked, deaf, without a grace", story{deaf: true, at: events{2 * s: revoked(4 * s)}}, "2s ask, 3.98s kill, 3.98s lose, 3.981s release"},
		{"revoked, and again, sooner", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(6 * s), 3 * s: revoked(4 * s)}}, "2s ask, 3.98s kill, 3.98s lose, 3.981s release"},
		{"revoked, and no time left", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(2 * s)}}, "2s kill, 2s lose, 2.001s release"},
		{"revoked, deaf, among many processes", story{grace: 1 * s, deaf: true, at: events{2 * s: func(d *Duty) { revoked(4 * s)(d); d.Took = 100 * ms }}}, "2s ask, 3.88s kill, 3.88s lose, 3.881s release"},
		{"revoked, and the lease is said to end with it", story{grace: 1 * s, deaf: true, at: events{2 * s: func(d *Duty) { revoked(4 * s)(d); d.Lease = d.Due }}}, "2s ask, 3.98s kill, 3.98s lose, 3.981s release"},
		{"revoked, and the lease is said to end just before", story{grace: 1 * s, deaf: true, at: events{2 * s: func(d *Duty) { revoked(4 * s)(d); d.Lease = d.Due.Add(-1) }}}, "2s ask, 3.98s kill, 3.98s lose, 3.981s release"},
		{"revoked, and the lease runs out first", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(20 * s)}}, "2s ask, 8s lose, 9s kill, 9.001s release"},
		{"revoked without a deadline", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(0)}}, "2s ask, 8s lose, 9s kill, 9.001s release"},
		{"KILL does not help", story{grace: 1 * s, deaf: true, tough: true}, "8s ask, 8s lose, 9s kill, 9.1s kill, 9.2s kill, 19s leave"},
		{"it ends by itself, its group later", story{grace: 1 * s, at: events{2 * s: ended, 5 * s: empty}}, "5s release"},
		{"the same, after a long time", story{grace: 1 * s, at: events{2 * s: ended, 5 * s: renewed(30 * s), 20 * s: empty}}, "12s remind, 20s release"},
		{"the same, and the lock is lost", story{grace: 1 * s, deaf: true, at: events{2 * s: ended}}, "8s ask, 8s lose, 9s kill, 9.001s release"},
		{"the same, and is revoked", story{grace: 1 * s, deaf: true, at: events{2 * s: ended, 3 * s: revoked(0)}}, "3s ask, 4s kill, 4.001s release"},
		{"the same, and is sent TERM", story{grace: 1 * s, deaf: true, at: events{2 * s: ended, 3 * s: stopped}}, "4s kill, 4.001s release"},
		{"its group may go on", story{grace: 1 * s, leaves: true, at: events{2 * s: ended}}, "2s release"},
		{"its group may not go on after TERM", story{grace: 1 * s, leaves: true, deaf: true, at: events{1 * s: stopped, 2 * s: ended}}, "3s kill, 3.001s release"},
		{"TERM ends it, and not its group", story{grace: 1 * s, deaf: true, at: events{1 * s: stopped, 4 * s: ended}}, "5s kill, 5.001s release"},
		{"TERM does not end it", story{grace: 1 * s, deaf: true, at: events{1 * s: stopped}}, "8s ask, 8s lose, 9s kill, 9.001s release"},
		{"HUP ends it, and not its group", story{grace: 1 * s, deaf: true, at: events{1 * s: hung, 4 * s: ended}}, "5s kill, 5.001s release"},
		{"it ends by itself long after a HUP", story{grace: 1 * s, at: events{1 * s: hung, 2 * s: renewed(30 * s), 12 * s: ended, 15 * s: empty}}, "15s release"},
		{"a revocation ends it, and not its group", story{grace: 1 * s, deaf: true, at: events{2 * s: revoked(7 * s), 3 * s: ended}}, "2s ask, 4s kill, 4.001s release"},
		{"KILL does not help, and the lock is held", story{grace: 1 * s, deaf: true, tough: true, at: events{1 * s: stopped, 2 * s: ended}}, "3s kill, 3.1s kill, 3.2s kill, 8s lose, 13s leave"},
		{"the same, and the lease is renewed", story{grace: 1 * s, deaf: true, tough: true, at: events{1 * s: stopped, 2 * s: ended, 5 * s: renewed(30 * s)}}, "3s kill, 3.1s kill, 3.2s kill, 12s remind, 29s lose, 29s leave"},
		{"it ends by itself", story{grace: 1 * s, at: events{2 * s: func(d *Duty) { d.Empty = true }}}, "2s release"},
		{"it ends before the least time", story{grace: 1 * s, until: 5 * s, at: events{2 * s: both}}, "2s stay, 5s release"},
		{"it ends after the least time", story{grace: 1 * s, until: 2 * s, at: events{3 * s: both}}, "3s release"},
		{"the least time, and the lease runs out", story{grace: 1 * s, until: 20 * s, at: events{2 * s: both}}, "2s stay, 8s lose, 8s release"},
		{"the least time, and the lease is renewed", story{grace: 1 * s, until: 12 * s, at: events{2 * s: both, 5 * s: renewed(14 * s)}}, "2s stay, 12s release"},
		{"the least time, and the lock is lost", story{grace: 1 * s, until: 6 * s, at: events{2 * s: both, 3 * s: lost}}, "2s stay, 3s lose, 3s release"},
		{"the least time, and it is revoked", story{grace: 1 * s, until: 6 * s, at: events{2 * s: both, 3 * s: revoked(7 * s)}}, "2s stay, 3s release"},
		{"TERM after the command", story{grace: 1 * s, until: 6 * s, at: events{2 * s: both, 3 * s: stopped}}, "2s stay, 3s release"},
		{"HUP after the command", story{grace: 1 * s, until: 6 * s, at: events{2 * s: both, 3 * s: hung}}, "2s stay, 3s release"},
		{"TERM ends the command", story{grace: 1 * s, until: 6 * s, at: events{1 * s: stopped, 2 * s: both}}, "2s release"},
		{"HUP long before the command's end", story{grace: 1 * s, until: 14 * s, at: events{1 * s: hung, 2 * s: renewed(30 * s), 12 * s: both}}, "12s stay, 14s release"},
		{"a HUP long before the command's end, and one after it", story{grace: 1 * s, until: 14 * s, at: events{500 * ms: hung, 2 * s: renewed(30 * s), 12 * s: both, 13 * s: hung}}, "12s stay, 13s release"},
		{"TERM twice, and the second one after the command", story{grace: 1 * s, deaf: true, at: events{1 * s: stopped, 2 * s: ended, 2500 * ms: stopped}}, "3s kill, 3.001s release"},
		{"the least time, and the group goes on", story{grace: 1 * s, until: 4 * s, at: events{2 * s: ended, 6 * s: empty}}, "6s release"},
		{"the least time, and its group may go on", story{grace: 1 * s, leaves: true, until: 4 * s, at: events{2 * s: ended}}, "2s stay, 4s release"},
		{"the lock is lost before the command's end", story{grace: 1 * s, until: 12 * s, at: events{2 * s: lost}}, "2s ask, 2s lose, 2.001s release"},
		{"it ends and the lock is lost", story{grace: 1 * s, at: events{2 * s: func(d *Duty) { d.Empty, d.Lost = true, true }}}, "2s lose, 2s release"},
	} {
		_, did := test.story.play(&now)
		eventstest.Equal(t, fmt.Sprint(did), "["+strings.ReplaceAll(test.want, ",", "")+"]", "%s", test.name)
	}
}

// A command is ending once it was asked to end, or if it has ended because of a signal.
func TestEnding(t *testing.T) {
	at := origin(2 * time.Second)
	for _, test := range []struct {
		name string
		set  func(d *Duty)
		want bool
	}{
		{"held", func(*Duty) {}, false},
		{"it was sent TERM", func(d *Duty) { d.Signaled(false, at) }, false},
		{"it has ended by itself, its group has not", func(d *Duty) { d.Ended = at }, false},
		{"TERM has ended it, and not its group", func(d *Duty) { d.Signaled(false, at); d.Ended = at }, true},
		{"revoked", func(d *Duty) { d.Revoked = true }, true},
		{"lost", func(d *Duty) { d.Lost = true }, true},
		{"the lease is about to run out", func(d *Duty) { d.Lease = at.Add(d.Grace) }, true},
	} {
		d := &Duty{Grace: time.Second, Timeout: 10 * time.Second, Lease: origin(9 * time.Second)}
		test.set(d)
		d.Next(at)
		eventstest.Equal(t, d.Ending(), test.want, "%s: ending", test.name)
	}
}

// For every order of events: unless the command is dead, KILL comes no later than the end
// of the lease and the deadline of a revocation. The signal is sent at most once.
func TestKillIsNeverLate(t *testing.T) {
	const ends, due, renewed, every = 9 * time.Second, 8 * time.Second, 10 * time.Second, 500 * time.Millisecond
	happen := []func(d *Duty){
		func(d *Duty) { d.Lost = true },
		func(d *Duty) { d.Revoked, d.Due = true, origin(due) },
		func(d *Duty) { d.Revoked = true },
		func(d *Duty) { d.Lease = origin(renewed) },
	}
	check := func(first, second int, a, b, grace time.Duration) {
		t.Helper()
		at := map[time.Duration]func(d *Duty){a: happen[first], b: happen[second]}
		if a == b {
			at[a] = func(d *Duty) { happen[first](d); happen[second](d) }
		}
		d, did := story{grace: grace, deaf: true, at: at}.play(new(time.Duration))
		asked, killed := 0, time.Duration(-1)
		for _, step := range did {
			if step.act == Ask {
				asked++
			} else if step.act == Kill {
				killed = step.at
			}
		}
		latest := ends
		if !d.Due.IsZero() {
			latest = due - lead
		} else if d.Lease.After(origin(ends)) {
			latest = renewed
		}
		late := max(latest, a, b) // an event may come after its own deadline
		eventstest.Expect(t, killed >= 0 && killed <= late && asked <= 1,
			"grace %v, %d at %v, %d at %v: KILL at %v after %d signals, want it at %v at the latest",
			grace, first, a, second, b, killed, asked, late)
	}
	for first := range happen {
		for second := range happen {
			for a := time.Duration(0); a < ends; a += every {
				for b := a; b < ends; b += every {
					check(first, second, a, b, 0)
					check(first, second, a, b, time.Second)
				}
			}
		}
	}
}

// NotBegun is not Done: the record of an earlier crash stays, and no new one is left.
func TestWhichEndReleases(t *testing.T) {
	for end, want := range map[End][2]bool{Done: {true, true}, NotBegun: {true, false}, Broken: {false, false}} {
		eventstest.Equal(t, [2]bool{end.Releases(false), end.Releases(true)}, want,
			"%d releases without a crash and after one", end)
	}
}
