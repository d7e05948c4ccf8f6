package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestRecorderWaitsForWhatIsHeard(t *testing.T) {
	t.Parallel()
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRecorder()
		begin := time.Now()
		for i, w := range []what{toldConnected, toldSuspended, toldGranted} {
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { r.hear(note{what: w}) })
		}
		if err := r.until(t.Context(), func(n note) bool { return n.what == toldGranted }); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited %v, want 3s", waited)
		}
		if err := r.until(t.Context(), func(n note) bool { return n.what == toldConnected }); err != nil {
			t.Errorf("what was heard before: %v", err)
		}
		if notes := r.take(); len(notes) != 3 || notes[2].what != toldGranted {
			t.Errorf("taken: %+v; want three notes, the last of them granted", notes)
		}
		if notes := r.take(); len(notes) != 0 {
			t.Errorf("taken again: %+v, want nothing", notes)
		}
	})
}

func TestRecorderWaitsNoLonger(t *testing.T) {
	t.Parallel()
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRecorder()
		begin := time.Now()
		if err := r.during(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("when nothing fails it ended with %v after %v, want no error after a minute", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.during(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("during a minute that is cut short: %v, want %v", err, context.DeadlineExceeded)
		}
		begin = time.Now()
		time.AfterFunc(time.Second, func() { r.hear(note{library: "lib", who: next, what: toldFailed, own: "no more"}) })
		err := r.during(t.Context(), time.Minute)
		if err == nil || time.Since(begin) != time.Second || !strings.Contains(err.Error(), "lib, next holder: no more") {
			t.Errorf("when a contender fails it ended with %v after %v, want what was said, after a second", err, time.Since(begin))
		}
	})
}
