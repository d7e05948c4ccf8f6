package zkotel_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// section returns the part of docs/observability.md that is about this package.
func section(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/observability.md")
	eventstest.Must(t, err)
	_, text, found := strings.Cut(string(page), "\n## OpenTelemetry\n")
	if !found {
		t.Fatal("docs/observability.md has no section OpenTelemetry")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestThePageNamesEverything: each metric and each attribute is in the tables of the page, and nothing else is.
func TestThePageNamesEverything(t *testing.T) {
	text := section(t)
	for file, pattern := range map[string]string{
		"metrics.go": `(?:histogram|counter|number|seconds|Int64ObservableGauge)\("(zkgrant\.[a-z_.]+)"`,
		"spans.go":   `attribute\.Key\("([a-z_.]+)"\)`,
	} {
		source, err := os.ReadFile(file)
		eventstest.Must(t, err)
		for _, name := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(text, "`"+name[1]+"`") {
				t.Errorf("%s has %s, want it on the page", file, name[1])
			}
		}
	}
	var all string
	for _, file := range []string{"metrics.go", "spans.go"} {
		source, err := os.ReadFile(file)
		eventstest.Must(t, err)
		all += string(source)
	}
	names := regexp.MustCompile("`((?:zkgrant|server|error)\\.[a-z_.]+)`").FindAllStringSubmatch(text, -1)
	for _, name := range names {
		if !strings.Contains(all, `"`+name[1]+`"`) {
			t.Errorf("the page has %s, which is no metric and no attribute", name[1])
		}
	}
	if len(names) < 30 {
		t.Errorf("the page has %d names, want 30 or more", len(names))
	}
}

// TestThePictureOnThePage: the trace on the page is one of a run.
func TestThePictureOnThePage(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		p := newProbe()
		c := coordtest.Connect(t, srv, coordinator.WithHooks(p))
		first, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		time.Sleep(100 * time.Millisecond)

		ctx, job := p.tracer.Start(t.Context(), "rebuild the index")
		a := c.Mutex(lockPath).Acquire(ctx)
		time.Sleep(20 * time.Second)
		srv.Cut(c.SessionID())
		time.Sleep(40 * time.Second)
		ended(t, first)
		grant := coordtest.Soon(t, a)
		time.Sleep(2 * time.Minute)
		eventstest.Must(t, srv.Delete(grant.Node))
		<-a.Lost()
		time.Sleep(time.Minute)
		job.End()
		if picture := draw(p.recorder.Ended()); !strings.Contains(section(t), picture) {
			t.Errorf("the page does not have the picture\n%s", picture)
		}
	})
}

// draw returns the spans as bars, the caller's first.
func draw(spans []sdktrace.ReadOnlySpan) string {
	const width = 40
	slices.SortFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), b.EndTime().Compare(a.EndTime()))
	})
	whole := spans[0]
	at := func(when time.Time) time.Duration { return when.Sub(whole.StartTime()).Round(time.Second) }
	column := func(when time.Time) int { return int(width * at(when) / at(whole.EndTime())) }
	var out strings.Builder
	for _, s := range spans {
		from, to := column(s.StartTime()), column(s.EndTime())
		bar := strings.Repeat(" ", from) + strings.Repeat("=", to-from) + strings.Repeat(" ", width-to)
		name := s.Name()
		if s.Parent().SpanID() == whole.SpanContext().SpanID() {
			name = "  " + name
		}
		fmt.Fprintf(&out, "%-18s|%s| %v to %v", name, bar, at(s.StartTime()), at(s.EndTime()))
		if s.Status().Code.String() == "Error" {
			out.WriteString(", Error: " + valueOf(s, "error.type").AsString())
		}
		out.WriteString("\n")
		for _, e := range s.Events() {
			fmt.Fprintf(&out, "%18s|%s^%s| %v %s\n", "", strings.Repeat(" ", column(e.Time)), strings.Repeat(" ", width-1-column(e.Time)), at(e.Time), e.Name)
		}
	}
	return out.String()
}
