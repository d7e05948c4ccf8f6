package zkprom

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom/promtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func dashboard(t *testing.T) *promtest.Dashboard {
	t.Helper()
	d, err := promtest.ParseDashboard([]byte(read(t, "dashboard.json")))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardShowsEachMetric, and no other one; its panels do not overlap.
func TestDashboardShowsEachMetric(t *testing.T) {
	t.Parallel()
	exported, shown := names(), map[string]bool{}
	taken := map[[2]int]string{}
	for _, p := range dashboard(t).Panels {
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("the panel %q has %d expressions and the description %q, want both", p.Title, len(p.Targets), p.Description)
		}
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`zkgrant_\w+`).FindAllString(target.Expr, -1) {
				if shown[plain(name)] = true; !exported[plain(name)] {
					t.Errorf("the panel %q uses %s, which is not exported", p.Title, name)
				}
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("the panel %q overlaps %q, or the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for name := range exported {
		if !shown[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// answers checks that a server that has scraped since then has an answer to each expression of the dashboard.
func answers(t *testing.T, server *promtest.Server, since time.Time) {
	t.Helper()
	for _, p := range dashboard(t).Panels {
		for _, target := range p.Targets {
			expr := target.Expanded("2s")
			eventstest.Eventually(t, "an answer to "+expr, func() bool { // what was scraped last is visible a moment later
				series, err := server.QueryRange(t.Context(), expr, since, time.Now(), time.Second)
				if err != nil {
					t.Fatalf("the panel %q: %v", p.Title, err)
				}
				for _, s := range series {
					for _, point := range s.Points {
						if !math.IsNaN(point.Value) {
							return true
						}
					}
				}
				return false
			})
		}
	}
}
