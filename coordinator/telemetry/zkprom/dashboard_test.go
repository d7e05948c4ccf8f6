package zkprom

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// panel is one of the dashboard's. A row has no targets.
type panel struct {
	Title, Description, Type string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	eventstest.Must(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	return d.Panels
}

// TestDashboardShowsEachMetric, and no other one; its panels do not overlap.
func TestDashboardShowsEachMetric(t *testing.T) {
	t.Parallel()
	exported, shown := names(), map[string]bool{}
	taken := map[[2]int]string{}
	for _, p := range panels(t) {
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

// answered checks that a server that has scraped since then answers each expression of the dashboard.
func answered(t *testing.T, server *scraper, since time.Time) {
	t.Helper()
	variables := strings.NewReplacer("$__rate_interval", "2s", "$__range", "2s", "$instance", ".*", "$lock", ".*")
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			eventstest.Eventually(t, "an answer to "+expr, func() bool { // what was scraped last is visible a moment later
				ok, err := server.answers(expr, since)
				if err != nil {
					t.Fatalf("the panel %q: %v", p.Title, err)
				}
				return ok
			})
		}
	}
}
