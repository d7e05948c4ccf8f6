package schedules

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// enough is the number of failing seeds after which the rest is not played: they would
// probably fail for the same reason.
const enough = 3

// telling is how many schedules show everything that schedules do: the first few hundred
// seeds have each kind of lock in each form.
const telling = 300

// least is how many schedules must be played for the test to be meaningful. They take
// seconds on an idle machine.
const least = 50

// tally sums up the outcomes.
type tally struct {
	begun time.Time

	mu      sync.Mutex
	counts  map[string]int
	played  int
	mild    int
	failed  int
	slowest time.Duration
	lasted  time.Duration
}

func (s *tally) hopeless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed >= enough
}

func (s *tally) add(t *testing.T, out outcome) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.played++
	s.lasted += out.length
	if out.slowest > s.slowest {
		s.slowest = out.slowest
		t.Logf("seed %d: the last lock was had %v after everything healed, with a timeout of %v",
			out.seed, out.slowest, out.longest())
	}
	if out.kind == mild {
		s.mild++
	}
	if len(out.failures) > 0 {
		s.failed++
		t.Logf("%d of %d schedules have failed", s.failed, s.played)
	}
	for what, n := range out.counts {
		s.counts[what] += n
	}
	s.counts["schedules: "+string(out.kind)]++
	s.counts["schedules: "+string(out.recipe)]++
	if out.form != plainNames {
		s.counts["schedules: "+string(out.form)]++
	}
	if s.played%1000 == 0 {
		t.Logf("%d schedules in %v, %d failed, %d grants",
			s.played, time.Since(s.begun).Round(time.Second), s.failed, s.counts["grants"])
	}
}

func (s *tally) faults() int {
	n := s.counts["frames"]
	for what, times := range s.counts {
		if strings.HasPrefix(what, "fault: ") {
			n += times
		}
	}
	return n
}

func (s *tally) print(t *testing.T) {
	t.Helper()
	var rows []string
	for what, n := range s.counts {
		rows = append(rows, fmt.Sprintf("%9d  %s", n, what))
	}
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(a[11:], b[11:]) })
	t.Logf("%d schedules in %v, %v of virtual time:\n%s",
		s.played, time.Since(s.begun).Round(time.Second), s.lasted.Round(time.Minute), strings.Join(rows, "\n"))
}

// demand fails if the schedules have become harmless.
func (s *tally) demand(t *testing.T) {
	t.Helper()
	for perThousand, all := range demands() {
		for what := range strings.SplitSeq(all, ", ") {
			if n := s.counts[what]; n*1000 < perThousand*s.played {
				t.Errorf("%s: only %d in %d schedules, want %d in a thousand", what, n, s.played, perThousand)
			}
		}
	}
}

// demands says what must happen how often in a thousand schedules: at most about a third
// of how often it does happen.
func demands() map[int]string {
	return map[int]string{
		15_000: "grants",
		8_000:  "grants after waiting, ended: released",
		1_000: "multi-locks, done under a lock, entered, frames, suspended, resumed, ended: cancelled, " +
			"ended: not acquired",
		500: "grants beside another holder, permits held by several, granted again, directories removed",
		200: "asked to write while it reads, create replies lost, requeued, sessions expired, lost: lease ran out, " +
			"ended: lost, ended: timeout, fault: partition, fault: stranded, fault: isolated, fault: frames, " +
			"schedules: ordinary, schedules: mutex, directories removed between faults",
		80: "told of a crash, creates recovered, coordinators replaced, lost: connection suspended, ended: closed, " +
			"ended: a contender that kazoo does not see, revoked, fault: cut, fault: cut all, fault: server down, " +
			"fault: mute, fault: all mute, fault: refused, fault: slow network, fault: lagging, fault: reaped, " +
			"fault: node deleted, fault: coordinator replaced, schedules: mild, schedules: decreed, " +
			"schedules: meddled, schedules: cached mutex, schedules: read/write lock, schedules: semaphore, " +
			"schedules: unfair lock, schedules: reentrant mutex, schedules: multi-lock, grants of a kept node",
		30: "downgraded, asked back, asked back by a deadline, held when revoked, fault: data changed, fault: asked back, " +
			"frames: replies to create or multi, lost: session expired, lost: revoked, fault: expired by decree, " +
			"schedules: kazoo's names, schedules: kazoo's names and ours",
		15: "resized, lost: node removed",
	}
}
