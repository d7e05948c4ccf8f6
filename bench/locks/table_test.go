package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestTheCommittedPageIsOfTheCommittedResults: go run ./locks -draw writes it and the
// plots.
func TestTheCommittedPageIsOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, p := range parts() {
		text, err := os.ReadFile(filepath.Join("..", p.file))
		eventstest.Must(t, err)
		eventstest.Must(t, os.WriteFile(filepath.Join(folder, p.file), text, 0o600))
	}
	var page strings.Builder
	eventstest.Must(t, render(folder, &page))
	benchtest.Compare(t, filepath.Join("..", "RESULTS.md"), page.String())
	plots, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil || len(plots) < 6 {
		t.Fatalf("the plots are %q, %v; want 6 or more", plots, err)
	}
	for _, plot := range plots {
		text, err := os.ReadFile(plot)
		eventstest.Must(t, err)
		benchtest.Compare(t, filepath.Join("..", filepath.Base(plot)), string(text))
	}
}

func TestEmptyResults(t *testing.T) {
	t.Parallel()
	for _, p := range parts() {
		p.results.write(&strings.Builder{})
		eventstest.Check(t, p.results.draw(t.TempDir()))
	}
}
