package pace

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNoSecondHasMoreThanTheRateAndABurst: that holds whenever reads are requested, and
// if some are not worth the wait.
func TestNoSecondHasMoreThanTheRateAndABurst(t *testing.T) {
	for _, rate := range []int{1, 7, 10, 64, 1000} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 0))
			b := NewLimiter(rate)
			now := time.Unix(1_000_000, 0)
			var sent []time.Time
			for range 4 * rate {
				switch rng.IntN(10) {
				case 0:
					now = now.Add(time.Duration(rng.IntN(3)) * time.Second)
				default:
					now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Second / time.Duration(rate)))))
				}
				until := time.Time{}
				if rng.IntN(3) == 0 {
					until = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
				}
				wait, ok := b.take(now, until)
				switch {
				case !ok && until.IsZero():
					t.Fatalf("rate %d: a read that may wait for ever is refused", rate)
				case ok && !until.IsZero() && now.Add(wait).After(until):
					t.Fatalf("rate %d: a read is let through %v after its bound", rate, now.Add(wait).Sub(until))
				case ok:
					sent = append(sent, now.Add(wait))
				}
			}
			for i := range sent {
				j := i
				for j < len(sent) && sent[j].Sub(sent[i]) < time.Second {
					j++
				}
				if n, most := j-i, rate+max(1, rate/10); n > most {
					t.Fatalf("rate %d, seed %d: %d reads within a second, want at most %d", rate, seed, n, most)
				}
			}
		}
	}
}

// TestAnIdleBucketHasABurst: a busy one has only the rate.
func TestAnIdleBucketHasABurst(t *testing.T) {
	b := NewLimiter(1000)
	now := time.Unix(1_000_000, 0)
	for i := range 1100 {
		want := max(0, time.Duration(i+1-90+9)/10*10*time.Millisecond)
		if got, ok := b.take(now, time.Time{}); !ok || got != want {
			t.Fatalf("read %d of an idle bucket waits %v, want %v", i, got, want)
		}
	}
	if got, _ := b.take(now.Add(-time.Hour), time.Time{}); got != 0 {
		t.Errorf("after a change of the clock a read waits %v, want none", got)
	}
	b = NewLimiter(0)
	if wait, ok := b.take(now, now); wait != 0 || !ok {
		t.Errorf("without a rate a read waits %v, %v; want none", wait, ok)
	}
}

// TestALimiterLetsManyThroughAtItsRate: a wait ends with its context.
func TestALimiterLetsManyThroughAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(100)
		gone, leave := context.WithCancelCause(t.Context())
		bored := errors.New("bored")
		began := time.Now()
		var passed, left atomic.Int32
		var all sync.WaitGroup
		for i := range 1010 {
			all.Go(func() {
				ctx := t.Context()
				if i%2 == 1 {
					ctx = gone
				}
				switch ok, err := l.Wait(ctx, time.Time{}); {
				case ok && err == nil:
					passed.Add(1)
				case errors.Is(err, bored):
					left.Add(1)
				}
			})
		}
		synctest.Wait()
		leave(bored)
		synctest.Wait()
		if took := time.Since(began); took != 0 || left.Load() < 490 {
			t.Errorf("after %v %d waits have ended with their context, want all of them at once", took, left.Load())
		}
		all.Wait()
		if n := passed.Load() + left.Load(); n != 1010 || time.Since(began) > 10100*time.Millisecond {
			t.Errorf("%d waits have ended within %v, want 1010 within 10.1s", n, time.Since(began))
		}
		for range 10 {
			_, _ = l.Wait(t.Context(), time.Time{}) // the burst is used up
		}
		if ok, err := l.Wait(t.Context(), time.Now()); ok || err != nil {
			t.Errorf("a read whose bound is now: %v, %v; want that it is not let through", ok, err)
		}
		l.Set(0)
		if ok, err := l.Wait(t.Context(), time.Now()); !ok || err != nil {
			t.Errorf("without a rate: %v, %v; want that it is let through", ok, err)
		}
	})
}
