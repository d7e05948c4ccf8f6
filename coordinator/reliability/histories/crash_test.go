package histories_test

import (
	"context"
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

// Histories of locks that tell of crashes, in virtual time: sessions expire, are cut, muted and stranded, functions panic,
// and coordinators are closed while their workers hold.
func TestHistoriesOfCrashes(t *testing.T) {
	first, count := uint64(1), uint64(reliability.Trials(5, 5, 60))
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		first, count = seed, 1
	}
	rounds := reliability.Trials(80, 80, 300)
	var total crashTally
	operations, faults := 0, 0
	verdicts := map[string]int{}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				c := virtualCrashes(t, seed, rounds)
				ops := c.operations()
				verdicts[checkCrashes(t, fmt.Sprint("seed ", seed), ops, c.notes)]++
				total.count(ops)
				operations, faults = operations+len(ops), faults+len(c.notes)
			})
			if t.Failed() {
				t.Logf("to repeat it, perhaps several times: %s=%d "+
					"go test -count=1 -run 'TestHistoriesOfCrashes$' ./coordinator/reliability/histories", seedVariable, seed)
			}
		})
	}
	if missing := total.missing(); len(missing) > 0 {
		t.Errorf("no %v in all histories", missing)
	}
	reliability.Report(t, reliability.RowHistories, "locks that tell of crashes, virtual time: %d histories, %d operations under %d faults: %d legal; %v",
		count, operations, faults, verdicts["legal"], &total)
}

// virtualCrashes has witnesses work while things break, and returns what they have seen.
func virtualCrashes(t *testing.T, seed uint64, rounds int) *chronicle {
	t.Helper()
	const tick = time.Second
	random := rand.New(rand.NewPCG(seed, 0))
	timeout := time.Duration(3+random.IntN(10)) * tick
	settings := []zktest.Setting{zktest.Tick(tick)}
	if random.IntN(2) == 0 {
		settings = append(settings, zktest.Followers())
	}
	srv := zktest.Start(t, settings...)
	c := &chronicle{history: newHistory(0)}
	crew := &witnesses{chronicle: c}
	for range 3 {
		options := []coordinator.Option{
			srv.Option(), coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick),
		}
		if random.IntN(4) == 0 {
			options = append(options, coordinator.WithLossOnSuspend())
		}
		crew.open(t, func() (*coordinator.Coordinator, error) {
			return coordinator.Connect(context.Background(), srv.Addr(), options...)
		})
		for range 3 {
			crew.hire(random, timeout/2, 2*timeout)
		}
	}
	finished := crew.start(func(done int) bool { return done < rounds })
	b := &breakage{srv: srv, history: c.history, random: random, timeout: timeout}
	for working := true; working; {
		select {
		case <-time.After(b.upTo(timeout)):
			desk := crew.desks[random.IntN(len(crew.desks))]
			if random.IntN(6) == 0 {
				crew.renew(t, desk)
				break
			}
			b.something(desk.current().SessionID())
		case <-finished:
			working = false
		case <-time.After(24 * time.Hour):
			t.Fatalf("seed %d: somebody waits for ever", seed)
		}
	}
	<-time.After(2 * timeout) // until everything is as it was
	crew.finish(t)
	return c
}

// witnesses are all workers of a history.
type witnesses struct {
	chronicle *chronicle
	desks     []*desk
	all       []*witness
	renewals  sync.WaitGroup
}

// open adds a coordinator, which those use who are hired next.
func (c *witnesses) open(t *testing.T, connect func() (*coordinator.Coordinator, error)) {
	t.Helper()
	d := &desk{connect: connect}
	if d.renew(t); d.now == nil {
		t.FailNow()
	}
	c.desks = append(c.desks, d)
}

// hire adds a worker.
func (c *witnesses) hire(random *rand.Rand, pace, patience time.Duration) {
	c.all = append(c.all, &witness{
		number: len(c.all), desk: c.desks[len(c.desks)-1], chronicle: c.chronicle, paths: crashPaths(), pace: pace, patience: patience,
		random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64())),
	})
}

// start sets all of them to work. The channel is closed when they have finished.
func (c *witnesses) start(more func(done int) bool) (finished <-chan struct{}) {
	done := make(chan struct{})
	var running sync.WaitGroup
	for _, w := range c.all {
		running.Go(func() { w.run(more) })
	}
	go func() {
		running.Wait()
		close(done)
	}()
	return done
}

// renew closes a coordinator while its workers go on.
func (c *witnesses) renew(t *testing.T, d *desk) {
	t.Helper()
	c.chronicle.note("%#x is closed", d.current().SessionID())
	c.renewals.Go(func() { d.renew(t) })
}

// finish asks each lock a last time whether somebody has crashed, when everything is in order, and closes.
func (c *witnesses) finish(t *testing.T) {
	t.Helper()
	c.renewals.Wait()
	w := c.all[0]
	for _, path := range crashPaths() {
		w.round++
		e, lock := w.begin(path, false)
		a := lock.Acquire(context.Background(), coordinator.WithData([]byte(e.who)))
		grant, err := a.Wait(context.Background())
		if err != nil {
			t.Errorf("%s: the last one: %v", path, err)
			continue
		}
		e.granted(grant)
		e.ends()
		a.Release()
		<-a.Done()
		if e.over(a.Err()); e.err != nil {
			t.Errorf("%s: the last one: %v", path, e.err)
		}
	}
	for _, d := range c.desks {
		d.close(t)
	}
}
