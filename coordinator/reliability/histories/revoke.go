package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// revoke asks for a lock, in which all handles are revocable, and waits for so long.
func (h *history) revoke(t *testing.T, c *coordinator.Coordinator, path string, grace, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var held []operation
	h.mu.Lock()
	for _, tenure := range h.tenures[path] {
		for _, part := range tenure.parts() {
			if part.op.Path == path {
				held = append(held, part.op)
			}
		}
	}
	h.mu.Unlock()
	ask := operation{Path: path, Kind: kindAsk, Call: h.now()}
	err := c.Revoke(ctx, path, grace)
	h.add(ask)
	switch {
	case err == nil:
		for _, op := range held {
			op.Kind, op.Call = kindGone, h.now()
			h.add(op)
		}
	case errors.Is(err, coordinator.ErrNotHeld), errors.Is(err, coordinator.ErrClosed), ctx.Err() != nil:
	default:
		t.Errorf("Revoke of %s: %v", path, err)
	}
}

// pickRevocable returns one of the paths: any but that of an unfair lock, which nobody can ask for.
func pickRevocable(random *rand.Rand, paths []string) string {
	for {
		if path := paths[random.IntN(len(paths))]; kindAt(path) != unfair {
			return path
		}
	}
}
