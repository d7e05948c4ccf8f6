package actors_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestACrewTakesTheNextFunction: while another function runs, the next one runs in a goroutine that is done. No goroutine is left
// behind.
func TestACrewTakesTheNextFunction(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var group actors.Group
		crew := actors.NewCrew(&group)
		expect := func(when string, more int) {
			t.Helper()
			synctest.Wait()
			if n := group.Running(); n != more {
				t.Errorf("%s there are %d goroutines, want %d", when, n, more)
			}
		}
		long, short := make(chan struct{}), make(chan struct{})
		crew.Go(func() { <-long })
		crew.Go(func() { <-short })
		expect("with two running", 2)
		close(short)
		expect("with one waiting", 2)
		ran := 0
		for range 10 {
			crew.Go(func() { ran++ })
			synctest.Wait()
		}
		expect("behind ten more", 2)
		crew.Go(func() { <-long })
		crew.Go(func() { <-long })
		expect("with three running", 3)
		close(long)
		expect("when none runs", 0)
		if ran != 10 {
			t.Errorf("%d functions ran of ten", ran)
		}
		group.Close()
		if crew.Go(func() { t.Error("a function ran in a closed group") }) {
			t.Error("Go has taken a function for a closed group, want it refused")
		}
	})
}

// TestACrewKeepsFew of the goroutines of a burst.
func TestACrewKeepsFew(t *testing.T) {
	const burst, kept = 500, 64
	eventstest.Bubble(t, func(t *testing.T) {
		var group actors.Group
		crew := actors.NewCrew(&group)
		long, short := make(chan struct{}), make(chan struct{})
		crew.Go(func() { <-long })
		for range burst {
			crew.Go(func() { <-short })
		}
		close(short)
		synctest.Wait()
		if n := group.Running(); n != 1+kept {
			t.Errorf("behind %d functions there are %d goroutines, want %d waiting and one running", burst, n, kept)
		}
		close(long)
		group.Close()
	})
}

// TestACrewLosesNoFunction that comes while others end. If the group is closed meanwhile, the function runs or is refused.
func TestACrewLosesNoFunction(t *testing.T) {
	const callers, each = 8, 2000
	for _, closes := range []bool{false, true} {
		var (
			group      actors.Group
			all        sync.WaitGroup
			taken, ran atomic.Int64
		)
		crew := actors.NewCrew(&group)
		for range callers {
			all.Go(func() {
				for range each {
					if crew.Go(func() { ran.Add(1) }) {
						taken.Add(1)
					}
				}
			})
		}
		if closes {
			group.Close()
		}
		all.Wait()
		group.Close()
		if ran.Load() != taken.Load() || !closes && taken.Load() != callers*each {
			t.Errorf("closed meanwhile: %v: %d functions were taken of %d, and %d ran; want every taken one", closes, taken.Load(), callers*each, ran.Load())
		}
	}
}
