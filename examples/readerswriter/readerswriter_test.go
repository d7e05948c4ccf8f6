package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three minutes of reading and writing, of which half a minute in every minute
// without somebody, who is cut off for longer than a session lasts. Nobody sees
// what the lock forbids, the writers who look at their own work included.
func TestReadersAndWriters(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Accidents(t, 3*time.Minute, 30*time.Second, func(ctx context.Context) error {
			return run(ctx, p, p.ZK, 4)
		})
		last := regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; at most [2-9] read at a time`)
		if !last.MatchString(p.String()) {
			t.Errorf("printed %s\nwant a last line like %v", p, last)
		}
		if !strings.Contains(p.String(), "editor  has read version") {
			t.Error("the editor has written nothing, want versions")
		}
		p.Empty(t, pricesLock)
	})
}

// What must not be seen is seen.
func TestTableNotices(t *testing.T) {
	noticed := 0
	prices := &table{fail: func(error) { noticed++ }}
	done := prices.open()
	if _, err := prices.change(t.Context()); err == nil {
		t.Errorf("a change while somebody reads: %v, want it noticed", err)
	}
	done()
	if _, err := prices.change(t.Context()); err != nil {
		t.Errorf("a change while nobody reads: %v, want success", err)
	}
	if err := prices.enter(); err != nil {
		t.Errorf("the first writer enters: %v, want success", err)
	}
	if err := prices.enter(); err == nil {
		t.Errorf("a second writer enters: %v, want it noticed", err)
	}
	if noticed != 2 {
		t.Errorf("noticed %d times, want 2", noticed)
	}
}
