package histories_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// seedVariable repeats the history of one seed.
const seedVariable = "ZKGRANT_SEED"

// Histories in virtual time, under faults that come all the time. All choices follow from the seed; the order in which
// goroutines run does not, so that a failure may need some runs to show again.
func TestHistoriesInVirtualTime(t *testing.T) {
	first, count := uint64(1), uint64(reliability.Trials(5, 5, 60))
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		first, count = seed, 1
	}
	rounds := reliability.Trials(80, 80, 300)
	var total tally
	operations, longest, faults := 0, 0, 0
	verdicts := map[string]int{}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				history := virtualHistory(t, seed, rounds)
				verdicts[checkHistory(t, fmt.Sprint("seed ", seed), history)]++
				ops := history.operations()
				total.count(ops)
				operations, longest, faults = operations+len(ops), max(longest, len(ops)), faults+len(history.notes)
			})
			if t.Failed() {
				t.Logf("to repeat it, perhaps several times: %s=%d "+
					"go test -count=1 -run 'TestHistoriesInVirtualTime$' ./coordinator/reliability/histories", seedVariable, seed)
			}
		})
	}
	total.want(t)
	if count > 1 && total.asked == 0 {
		t.Error("Revoke was never called")
	}
	reliability.Report(t, reliability.RowHistories,
		"virtual time: %d histories of up to %d operations, %d in all, under %d faults: %d legal; %v",
		count, longest, operations, faults, verdicts["legal"], &total)
}

// virtualHistory has a crew work while things break, and returns what it has seen.
func virtualHistory(t *testing.T, seed uint64, rounds int) *history {
	t.Helper()
	const tick = time.Second
	random := rand.New(rand.NewPCG(seed, 0))
	timeout := time.Duration(3+random.IntN(10)) * tick
	settings := []zktest.Setting{zktest.Tick(tick)}
	if random.IntN(2) == 0 {
		settings = append(settings, zktest.Followers())
	}
	srv := zktest.Start(t, settings...)
	crew := newCrew(0, "/locks/a", "/locks/b", "/locks/rw", "/locks/permits", "/tasks/task", "/service/leader")
	if seed%2 == 1 {
		crew.marks = append(crew.marks, coordinator.Revocable())
	}
	var coordinators []*coordinator.Coordinator
	for range 4 {
		options := []coordinator.Option{
			srv.Option(), coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick),
		}
		if random.IntN(4) == 0 {
			options = append(options, coordinator.WithLossOnSuspend())
		}
		c, err := coordinator.Connect(t.Context(), srv.Addr(), options...)
		if err != nil {
			t.Fatal(err)
		}
		coordinators = append(coordinators, c)
		t.Cleanup(func() { _ = c.Close() }) // if not before
		for range 3 {
			crew.hire(c, random, timeout/2, 2*timeout)
		}
	}
	finished := crew.start(t, func(done int) bool { return done < rounds })
	b := &breakage{srv: srv, history: crew.history, random: random, timeout: timeout}
	var revoking sync.WaitGroup
	for working := true; working; {
		select {
		case <-time.After(b.upTo(timeout / 2)):
			someone := coordinators[random.IntN(len(coordinators))]
			if crew.marks != nil && random.IntN(3) == 0 {
				path, grace := pickRevocable(random, crew.paths), b.upTo(timeout/2)
				crew.history.note("somebody asks for %s within %v", path, grace)
				revoking.Go(func() { crew.history.revoke(t, someone, path, grace, 4*timeout) })
				break
			}
			b.something(someone.SessionID())
		case <-finished:
			working = false
		case <-time.After(24 * time.Hour):
			t.Fatalf("seed %d: somebody waits for ever", seed)
		}
	}
	revoking.Wait()
	<-time.After(2 * timeout) // until everything is as it was
	for _, c := range coordinators {
		if err := c.Close(); err != nil {
			t.Errorf("seed %d: Close: %v", seed, err)
		}
	}
	return crew.history
}

// breakage breaks the server for somebody, and mends it after a while.
type breakage struct {
	srv     *zktest.Server
	history *history
	random  *rand.Rand
	timeout time.Duration
}

func (b *breakage) upTo(d time.Duration) time.Duration {
	return time.Duration(b.random.Int64N(int64(d) + 1))
}

// something happens to a session, or to all of them, for at most twice the session timeout.
func (b *breakage) something(session int64) {
	lasting := b.upTo(2 * b.timeout)
	switch b.random.IntN(8) {
	case 0:
		b.history.note("%#x expires", session)
		b.history.end(session)
		_ = b.srv.Expire(session) // there is none between two sessions
	case 1, 2:
		b.history.note("%#x is cut", session)
		b.srv.Cut(session)
	case 3, 4:
		b.history.note("%#x is muted for %v", session, lasting)
		b.srv.Mute(session, true)
		time.AfterFunc(lasting, func() { b.srv.Mute(session, false) })
	case 5, 6:
		b.history.note("%#x is stranded for %v", session, lasting)
		b.srv.Strand(session, true)
		time.AfterFunc(lasting, func() {
			b.srv.Cut(session) // as a follower does that finds out
			b.srv.Strand(session, false)
		})
	default:
		lasting /= 4
		b.history.note("the server is away for %v", lasting)
		b.srv.Down(true)
		time.AfterFunc(lasting, func() { b.srv.Down(false) })
	}
}
