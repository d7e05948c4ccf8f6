package promtest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Dashboard is what a dashboard for Grafana shows.
type Dashboard struct {
	Title  string
	Panels []Panel
}

// Panel is one of its panels. A row has no targets.
type Panel struct {
	Title       string
	Description string
	Type        string // timeseries, stat, row, state-timeline
	GridPos     struct{ X, Y, W, H int }
	Targets     []Target
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct {
				LineInterpolation string
				FillOpacity       int
				Stacking          struct{ Mode string }
			}
		}
	}
}

// Target is one expression of a panel.
type Target struct {
	Expr         string
	LegendFormat string
}

// ParseDashboard reads a dashboard from its JSON.
func ParseDashboard(text []byte) (*Dashboard, error) {
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("promtest: %w", err)
	}
	return d, nil
}

// Expanded returns the expression without Grafana's variables: every lock and instance, and rates over the given time, such as 1m.
func (t Target) Expanded(rate string) string {
	return strings.NewReplacer("$__rate_interval", rate, "$__range", rate, "$instance", ".*", "$lock", ".*").Replace(t.Expr)
}

// Legend returns the name of a series.
func (t Target) Legend(labels map[string]string) string {
	name := t.LegendFormat
	for label, value := range labels {
		name = strings.ReplaceAll(name, "{{"+label+"}}", value)
	}
	return name
}
