package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// output keeps what a contender prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// line is the number of the first line with this report, negative if there is none.
func (o *output) line(word what) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.IndexFunc(strings.Split(o.text.String(), "\n"), func(line string) bool {
		told, _, ok, err := parseTold(line)
		return ok && err == nil && told == word
	})
}

func (o *output) has(word what) bool { return o.line(word) >= 0 }

func TestContendersTellOfTheLossOfTheirSession(t *testing.T) {
	t.Parallel()
	for _, library := range []string{keyStock, keyOurs} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			var printed output
			input, end := io.Pipe()
			done := make(chan error, 1) // one value, when the contender has returned
			go func() {
				at := seat{addr: srv.Addr(), path: "/locks/it", timeout: 4 * time.Second, tick: 2 * time.Second}
				done <- contend(context.Background(), library, at, input, &printed)
			}()
			eventstest.Eventually(t, "the lock is granted", func() bool { return printed.has(toldGranted) })
			if !printed.has(toldConnected) || printed.has(toldLost) {
				t.Errorf("when it is granted the contender has printed %s, want a connection and no loss", printed.text.String())
			}
			sessions := srv.Sessions()
			if len(sessions) != 1 {
				t.Fatalf("when it is granted there are %d sessions, want 1", len(sessions))
			}
			if err := srv.Expire(sessions[0]); err != nil {
				t.Fatal(err)
			}
			eventstest.Eventually(t, "the loss is told", func() bool { return printed.has(toldLost) })
			if no := printed.line(toldInvalid); library == keyOurs && (no < 0 || no > printed.line(toldLost)) {
				t.Errorf("lost before it was not valid: %s", printed.text.String())
			}
			if err := end.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// The script, with the two libraries that need no Java, and the in-process server.
func TestTheScriptSeesLossAndGrantOfEachLibrary(t *testing.T) {
	t.Parallel()
	const timeout, tick, heal = time.Second, 100 * time.Millisecond, 2 * time.Second
	srv := zktest.Start(t, zktest.Tick(tick))
	s := &script{
		server: srv.Addr(), timeout: timeout, tick: tick, healed: heal,
		contest: []library{{Key: keyStock}, {Key: keyOurs}},
		command: command, say: t.Logf,
	}
	cut, notes, err := s.play(t.Context(), "/run", timeout/3)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range s.contest {
		r := newRun(l.Key, notes, cut)
		for what, at := range map[string]*Millis{
			"suspended": r.Suspended, "lost": r.Lost, "expired": r.Expired, "granted": r.Granted,
		} {
			if at == nil || *at <= 0 {
				t.Errorf("%s: %s at %v, want a time after the cut", l.Key, what, at)
			}
		}
		if (r.Invalid != nil) != (l.Key == keyOurs) {
			t.Errorf("%s: not valid at %v, want a time for zkgrant alone", l.Key, r.Invalid)
		}
		if t.Failed() {
			t.Fatalf("%s was told %+v", l.Key, r.Told)
		}
		t.Logf("%s: suspended %v, lost %v, expired %v, granted %v", l.Key, *r.Suspended, *r.Lost, *r.Expired, *r.Granted)
		if l.Key == keyStock && *r.Lost < millis(heal) {
			t.Errorf("%s was told what it could not know: %+v", l.Key, r.Told)
		}
	}
}

func TestScriptFailsWithItsContenders(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := &script{
		server: srv.Addr(), timeout: time.Second, tick: 500 * time.Millisecond, healed: time.Second,
		contest: []library{{Key: "nosuch", Name: "No Such"}}, command: command, say: t.Logf,
	}
	_, _, err := s.play(t.Context(), "/run", time.Second)
	if err == nil || !strings.Contains(err.Error(), `no library "nosuch"`) {
		t.Errorf("a play with an unknown library: %v, want that there is none", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	s.contest = []library{{Key: keyOurs}}
	if _, _, err := s.play(ctx, "/run", time.Second); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("a cancelled play: %v, want the cause", err)
	}
}
