package eventstest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// ErrNever is the cause of a Patient context that has run out of patience.
var ErrNever = errors.New("eventstest: what is waited for does not happen")

// tick is the interval at which a Patient context counts.
const tick = 50 * time.Millisecond

// Patient returns a context that ends with ErrNever as its cause: after most on an idle
// machine, and later on a busy one, because it counts ticks that this process has seen.
// It bounds a wait for real servers and other processes. cancel ends it with
// context.Canceled.
func Patient(most time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(context.Background())
	go count(ctx, int(most/tick), func() { end(ErrNever) })
	return ctx, func() { end(context.Canceled) }
}

// count calls over after this many ticks, unless the context ends first.
func count(ctx context.Context, ticks int, over func()) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for range ticks {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	over()
}

// Patiently returns a Patient context that ends with the test.
func Patiently(tb testing.TB, most time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := Patient(most)
	tb.Cleanup(cancel)
	return ctx
}
