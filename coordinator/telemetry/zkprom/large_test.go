package zkprom

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAScrapeExportsWhatIsKnown of a large tree within a second, however far the search is. The looks go on between the scrapes, and send no
// more than the reads of a process.
func TestAScrapeExportsWhatIsKnown(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		nodes := eventstest.Amount(8_000, 63_000)
		for i := range nodes {
			eventstest.Must(t, server.Create(fmt.Sprintf("/locks/m/%05d", i), nil))
		}
		eventstest.Must(t, server.Create("/locks/a/lock-0000000000", nil))
		eventstest.Must(t, server.Create("/locks/z/lock-0000000000", nil))
		c, err := coordinator.Connect(t.Context(), server.Addr(), server.Option())
		eventstest.Must(t, err)
		defer func() { eventstest.Check(t, c.Close()) }()
		q := NewQueues(c, "/locks")
		count := func() int { return server.Requests(zktest.OpGetChildren2) + server.Requests(zktest.OpGetData) }
		begun := time.Now()
		both := false
		for !both {
			asked := time.Now()
			shown := exposed(t, q)
			if took := time.Since(asked); took > time.Second {
				t.Fatalf("a scrape took %v, want a second at most", took)
			}
			if !shown["queue_held{unknown,/locks/a}=1"] {
				t.Fatalf("%v after the first scrape the lock at the beginning is not exported: %v", time.Since(begun), shown)
			}
			both = shown["queue_held{unknown,/locks/z}=1"]
			if shown["queue_searched=1"] && !both {
				t.Fatal("the tree counts as searched before its last lock is exported")
			}
			if time.Since(begun) > 6*time.Duration(nodes)*time.Millisecond {
				t.Fatalf("the lock at the end is not exported after %v", time.Since(begun))
			}
			time.Sleep(5*time.Second + 1)
		}
		if n, most := count(), int(time.Since(begun).Seconds()+1)*session.DefaultReadRate; n < nodes || n > nodes+2000 || n > most {
			t.Errorf("%d reads for %d nodes in %v, want each once, and at most %d", n, nodes, time.Since(begun), most)
		}
		time.Sleep(5*time.Second + 1)
		if shown := exposed(t, q); !shown["queue_searched=1"] {
			t.Errorf("after the search: %v, want a tree that was searched", shown)
		}
		time.Sleep(5*time.Second + 1)
		asked, n := time.Now(), count()
		q.Collect(make(chan prometheus.Metric, 100))
		if n = count() - n; n > 10 || time.Since(asked) > 100*time.Millisecond {
			t.Errorf("while the search rests a scrape takes %d reads and %v, want a few, and no time", n, time.Since(asked))
		}
	})
}
