package schedules

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// enough is the number of failing seeds after which the rest is not played: they would fail for the same reason.
const enough = 3

// telling is how many schedules show all that schedules do: the first few hundred seeds have each kind of lock in each form.
const telling = 300

// least is how many schedules have to be played for the test to say anything. They take seconds on an idle machine.
const least = 50

// tally sums the outcomes up.
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
	s.counts["schedules: "+out.kind.String()]++
	s.counts["schedules: "+out.recipe.String()]++
	if out.form != plainNames {
		s.counts["schedules: "+out.form.String()]++
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

// print prints what has happened.
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
	for what, perThousand := range demands() {
		if n := s.counts[what]; n*1000 < perThousand*s.played {
			t.Errorf("%s: only %d in %d schedules, want %d in a thousand", what, n, s.played, perThousand)
		}
	}
}

// demands says how often events have to occur in a thousand schedules: about a third of how often they do.
func demands() map[string]int {
	return map[string]int{
		"grants":                             15_000,
		"multi-locks":                        1_000,
		"grants after waiting":               8_000,
		"done under a lock":                  2_000,
		"grants beside another holder":       500,
		"downgraded":                         40,
		"asked to write while it reads":      200,
		"told of a crash":                    150,
		"entered":                            1_000,
		"permits held by several":            500,
		"resized":                            20,
		"create replies lost":                300,
		"creates recovered":                  150,
		"frames":                             1_500,
		"frames: replies to create or multi": 40,
		"requeued":                           250,
		"suspended":                          1_200,
		"resumed":                            1_000,
		"sessions expired":                   200,
		"coordinators replaced":              80,
		"lost: lease ran out":                200,
		"lost: connection suspended":         100,
		"lost: session expired":              30,
		"lost: node removed":                 15,
		"ended: lost":                        300,
		"ended: released":                    8_000,
		"ended: cancelled":                   1_000,
		"ended: not acquired":                1_500,
		"ended: timeout":                     400,
		"ended: closed":                      150,
		"fault: cut":                         150,
		"fault: cut all":                     80,
		"fault: server down":                 80,
		"fault: mute":                        150,
		"fault: all mute":                    80,
		"fault: partition":                   200,
		"fault: refused":                     80,
		"fault: slow network":                80,
		"fault: stranded":                    200,
		"fault: lagging":                     80,
		"fault: reaped":                      80,
		"fault: isolated":                    200,
		"fault: data changed":                50,
		"fault: asked back":                  50,
		"asked back":                         30,
		"asked back by a deadline":           60,
		"revoked":                            100,
		"lost: revoked":                      50,
		"ended: a contender that kazoo does not see": 100,
		"fault: frames":                      200,
		"fault: expired by decree":           35,
		"fault: node deleted":                80,
		"fault: coordinator replaced":        80,
		"schedules: " + ordinary.String():    300,
		"schedules: " + mild.String():        150,
		"schedules: " + decreed.String():     80,
		"schedules: " + meddled.String():     80,
		"schedules: " + mutex.String():       200,
		"schedules: " + cached.String():      100,
		"grants of a kept node":              100,
		"schedules: " + kazoosNames.String(): 60,
		"schedules: " + mixedNames.String():  30,
		"schedules: " + readWrite.String():   100,
		"schedules: " + semaphore.String():   100,
		"schedules: " + unfair.String():      100,
		"schedules: " + reentrant.String():   100,
		"schedules: " + several.String():     100,
		"granted again":                      500,
		"directories removed":                800,
		"directories removed between faults": 200,
	}
}
