package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestWhichKindHasWhichOption checks every kind with every option that only some kinds
// have.
func TestWhichKindHasWhichOption(t *testing.T) {
	c := &Coordinator{}
	for kind, want := range map[*kind]string{
		kindMutex:     "DetectCrash AsKazoo Revocable Reentrant Cached in-Multi",
		kindReadWrite: "DetectCrash AsKazoo Revocable Reentrant in-Multi",
		kindElection:  "DetectCrash AsKazoo Revocable Reentrant",
		kindSemaphore: "Revocable AdoptSize Permits",
		kindUnfair:    "",
	} {
		got := ""
		for _, option := range []struct {
			name string
			set  LockOption
		}{
			{"DetectCrash", DetectCrash()}, {"AsKazoo", AsKazoo()}, {"Revocable", Revocable()}, {"Reentrant", Reentrant()},
			{"Cached", Cached()}, {"AdoptSize", AdoptSize()}, {"Permits", nil},
		} {
			cfg := lockConfigOf([]LockOption{option.set})
			l := c.handle("/l", kind, recipes.Semaphore{Size: 1, Permits: 1}, cfg)
			err := l.checkOptions()
			if option.set == nil {
				err = l.check(configOf([]AcquireOption{Permits(1)}))
			}
			switch {
			case err == nil:
				got += " " + option.name
			case !errors.Is(err, ErrKind) || !errors.Is(err, ErrInvalid) || errors.Is(err, ErrPermits):
				t.Errorf("%s with %s: %v, want ErrKind and ErrInvalid", kind.name, option.name, err)
			}
		}
		if kind.can&canJoin != 0 {
			got += " in-Multi"
		}
		eventstest.Expect(t, got == want || got == " "+want, "%s can have%s, want %s", kind.name, got, want)
	}
}

// named is a kind that the library does not have: a mutex for contenders whose data
// contain their name. CONTRIBUTING.md refers to it.
type named struct{ recipes.Mutex }

var errNameless = errors.New("a contender without data")

// TestAKindOfLockIsARuleAndARow adds a kind without changing anything else.
func TestAKindOfLockIsARuleAndARow(t *testing.T) {
	c, err := Connect(t.Context(), zktest.Start(t).Addr())
	eventstest.Must(t, err)
	defer func() { _ = c.Shutdown(context.WithoutCancel(t.Context())) }()
	l := c.handle("/named", &kind{
		name: "a mutex with names", word: "named", can: canDetect,
		check: func(l *Lock, cfg acquireConfig, _ int) error {
			if len(cfg.data) == 0 {
				return fmt.Errorf("%w: %w, for %s", ErrInvalid, errNameless, l.path)
			}
			return nil
		},
	}, named{}, lockConfig{})
	if _, err := l.Acquire(t.Context()).Wait(t.Context()); !errors.Is(err, errNameless) {
		t.Fatalf("without a name: %v, want it refused", err)
	}
	first, err := l.Hold(t.Context(), Data([]byte("a")))
	eventstest.Must(t, err)
	second := l.Acquire(t.Context(), Data([]byte("b"))) // only now, because of two at once either may come first
	queue, err := l.Queue(t.Context())
	eventstest.Expect(t, err == nil && len(queue) > 0 && queue[0].Holding && string(queue[0].Data) == "a",
		"the queue is %+v, %v; want a to hold", queue, err)
	first.Release()
	_, err = second.Wait(t.Context())
	eventstest.Check(t, err)
	err = c.Mutex("/named").Do(t.Context(), func(context.Context, events.Grant) error { return nil })
	eventstest.ErrorIs(t, err, ErrKind, "a mutex at the same path")
	second.Release()
	<-second.Done()
}
