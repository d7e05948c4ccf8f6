package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALargeTreeIsShownAsItIsSearched: the page has the locks that were found so far,
// live, and says how far the search is. The board sends no more than the reads of a
// process.
func TestALargeTreeIsShownAsItIsSearched(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		nodes := eventstest.Amount(8_000, 63_000)
		for i := range nodes {
			eventstest.Must(t, server.Create(fmt.Sprintf("/locks/m/%05d", i), nil))
		}
		ann := acquire(t, connect(t, server), "/locks/a", "ann")
		acquire(t, connect(t, server), "/locks/z", "zoe")
		asked := new(requests)
		b := boardOf(t, connect(t, server, coordinator.WithHooks(asked)))
		p, opened := visit(b, false), time.Now()
		defer p.leave()
		time.Sleep(3 * time.Second)
		if got := p.shows(); got != "/locks/a: ann*" || p.last().Nodes == 0 {
			t.Fatalf("3 s after it was opened the page shows %q, with %d nodes searched; want the lock at the beginning, and some", got, p.last().Nodes)
		}
		ann.Release()
		time.Sleep(3 * time.Second)
		if got := p.shows(); got != "" {
			t.Errorf("3 s after the release the page shows %q", got)
		}
		for p.last().Nodes > 0 && time.Since(opened) < time.Hour {
			time.Sleep(time.Second)
		}
		searched := time.Since(opened)
		if got := p.shows(); got != "/locks/z: zoe*" || searched > 3*time.Duration(nodes)*time.Millisecond {
			t.Errorf("after %v the whole tree is searched, and the page shows %q; want the lock at the end", searched, got)
		}
		if n, most := asked.Load(), int64(searched.Seconds()+1)*session.DefaultReadRate; n > most {
			t.Errorf("%d requests in %v, want at most %d", n, searched, most)
		}
		asked.Store(0)
		time.Sleep(10 * time.Second)
		if n := asked.Load(); n > 10*2*10 {
			t.Errorf("%d requests in 10 s while the search rests, want a few for each look", n)
		}
	})
}
