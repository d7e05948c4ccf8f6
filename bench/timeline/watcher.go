package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events"
)

// pollInterval is the time between two looks at an incomplete queue.
const pollInterval = 20 * time.Millisecond

// queue waits until two contenders stand at the path. It calls gone, in another goroutine, when the first one's node is deleted.
func queue(ctx context.Context, w *peers.Watcher, path string, gone func(at time.Time)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		names, err := w.Children(path)
		if err != nil {
			return err
		}
		if len(names) == 2 {
			return w.Guard(path+"/"+first(names), gone)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d instead of 2 stand at %s: %w", len(names), path, context.Cause(ctx))
		}
	}
}

// first is the name with the lowest number.
func first(names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		na, _ := events.ParseName(a)
		nb, _ := events.ParseName(b)
		return events.CompareNames(na, nb)
	})
}
