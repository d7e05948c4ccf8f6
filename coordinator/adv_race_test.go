package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAdvRaces(t *testing.T) {
	for kind := range groupKinds {
		coordtest.Case(t, fmt.Sprint(kind), func(t *testing.T, srv *zktest.Server) {
			hook := &storyBook{}
			c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
			gone := errors.New("gone")
			var outer *coordinator.Acquisition
			counts := map[string]int{}
			base := t.Context()
			if kind == 2 || kind == 3 {
				outer, _ = groupKinds[kind](c, "x").Hold(t.Context())
				base = outer.Context(base)
			}
			for i := range 1500 {
				g := coordinator.NewGroup()
				var mu sync.Mutex
				said, bad := map[uint64]string{}, ""
				released := map[uint64]bool{}
				byID := map[uint64]*coordinator.Acquisition{}
				done := make(chan struct{})
				cancelled := map[uint64]bool{}
				go func() {
					defer close(done)
					for ev := range g.Events() {
						id := ev.AcquisitionID()
						if id == 0 {
							continue
						}
						mu.Lock()
						said[id] += letter(ev)
						if _, is := ev.(events.Grant); is && released[id] {
							bad = "a Grant was read after the release"
						}
						mu.Unlock()
						if rand.IntN(20) == 0 {
							time.Sleep(time.Microsecond)
						}
					}
				}()
				var as []*coordinator.Acquisition
				var wg sync.WaitGroup
				for range 4 {
					ctx, cancel := context.WithCancelCause(base)
					wg.Go(func() {
						a := g.Acquire(ctx, groupKinds[kind](c, "x"))
						mu.Lock()
						as = append(as, a)
						byID[a.ID()] = a
						mu.Unlock()
						for range rand.IntN(3000) {
							if i < 0 {
								break
							}
						}
						if rand.IntN(3) == 0 {
							time.Sleep(time.Duration(rand.IntN(3)) * time.Nanosecond)
						}
						switch rand.IntN(4) {
						case 0:
							cancel(gone)
							mu.Lock()
							cancelled[a.ID()] = true
							mu.Unlock()
						case 1:
							a.Release()
							mu.Lock() // a Grant read before may be noted only now
							defer mu.Unlock()
						case 2:
							a.Release()
						}
					})
					defer cancel(nil)
				}
				if rand.IntN(2) == 0 {
					wg.Wait()
				}
				g.Close()
				wg.Wait()
				<-done
				for _, a := range as {
					<-a.Done()
					story, err := said[a.ID()], a.Err()
					ok := errors.Is(err, coordinator.ErrClosed) && story == "" || advStory.MatchString(story)
					granted := len(story) > 1 && story[len(story)-2] == 'G'
					if granted != (err == nil) && story != "" {
						ok = false
					}
					if !ok || bad != "" || !advStory.MatchString(hook.all[a.ID()]) {
						t.Fatalf("round %d: the group said %q, hook %q, Err is %v; %s", i, story, hook.all[a.ID()], err, bad)
					}
					counts[fmt.Sprint(story, err == nil)]++
				}
			}
			if outer != nil {
				outer.Release()
				<-outer.Done()
			}
			t.Log(counts)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if left := contenders(srv); len(left) > 0 {
				t.Fatal(left)
			}
		})
	}
}
