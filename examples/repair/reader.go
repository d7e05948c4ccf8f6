package main

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// brokenError says that somebody has seen what must not be seen.
type brokenError struct{ found state }

func (e *brokenError) Error() string {
	return fmt.Sprintf("read %q and %q, ready %v", e.found.left, e.found.right, e.found.ready)
}

// reader uses the two nodes together.
type reader struct {
	pair  *pair
	tally *tally
}

// look is one look under the read lock. Whoever is told of a crash leaves the nodes alone until somebody has repaired
// them; to read them is for the show.
func (r *reader) look(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Read().Do(ctx, func(ctx context.Context, grant events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		found, err := r.pair.read()
		switch {
		case err != nil || !lock.Valid(): // nothing was seen, or it may have been written meanwhile
			return nil //nolint:nilerr // there is another look soon
		case grant.Abandoned != nil || !found.ready:
			r.tally.add(&r.tally.waited)
			if grant.Abandoned == nil || found.ready && !found.whole() {
				return &brokenError{found}
			}
			return nil
		case !found.whole():
			return &brokenError{found}
		}
		r.tally.add(&r.tally.read)
		return nil
	})
}
