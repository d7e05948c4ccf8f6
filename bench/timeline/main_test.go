package main

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { benchtest.Main(m, run) }

// command returns the command of a contender in Go.
func command(l library, at seat) *exec.Cmd {
	return benchtest.Command(at.arguments(l.Key)...)
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	benchtest.Refuses(t, run,
		[]string{"-nosuch"}, []string{"more"}, []string{"-draw", "-o", t.TempDir()}, []string{contendCommand},
		[]string{contendCommand, keyOurs, "no seat"},
		[]string{contendCommand, "nosuch", "{}"})
}

// Each measurement compiles the Java contender anyway. This test finds errors earlier.
func TestTheContenderInJavaCompiles(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	curator, err := peers.FindCurator(ensemble.Installed(t))
	eventstest.Must(t, err)
	eventstest.Check(t, curator.Compile(t.Context(), t.TempDir(), contenderClass, javaContender))
}

// TestTheScriptSeesLossAndGrantOfEachLibrary plays the script on the in-process server,
// with the two libraries that do not need Java.
func TestTheScriptSeesLossAndGrantOfEachLibrary(t *testing.T) {
	t.Parallel()
	// A contender that waits for a processor must not lose its session.
	began := time.Now()
	eventstest.Must(t, exec.Command("true").Run())
	timeout := max(time.Second, 100*time.Since(began).Round(time.Millisecond))
	tick, heal := timeout/10, 2*timeout
	srv := zktest.Start(t, zktest.Tick(tick))
	s := &script{
		server: srv.Addr(), timeout: timeout, tick: tick, healed: heal,
		contest: []library{{Key: keyStock}, {Key: keyOurs}},
		command: command, say: t.Logf,
	}
	cut, notes, err := s.play(t.Context(), "/run", timeout/3)
	eventstest.Must(t, err)
	for _, l := range s.contest {
		r := newRun(l.Key, notes, cut)
		for _, of := range moments() {
			at, came := r.Moments[of]
			if came != (of != invalid || l.Key == keyOurs) || came && of != lead && at <= 0 {
				t.Errorf("%s: %s at %v, %v; want a time after the cut, and only zkgrant not valid", l.Key, of, at, came)
			}
		}
		if l.Key == keyOurs && r.Moments[invalid] > r.Moments[lost] || l.Key == keyStock && r.Moments[lost] < millis(heal) {
			t.Errorf("%s was told %+v, want zkgrant's loss after it was not valid, and no other one before the heal", l.Key, r.Told)
		}
	}
}

func TestScriptFailsWithItsContenders(t *testing.T) {
	t.Parallel()
	s := &script{
		server: zktest.Start(t).Addr(), timeout: time.Second, tick: 500 * time.Millisecond, healed: time.Second,
		contest: []library{{Key: "nosuch", Name: "No Such"}}, command: command, say: t.Logf,
	}
	_, _, err := s.play(t.Context(), "/run", time.Second)
	eventstest.Contains(t, fmt.Sprint(err), `no library "nosuch"`, "a play with an unknown library")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	s.contest = []library{{Key: keyOurs}}
	_, _, err = s.play(ctx, "/run", time.Second)
	eventstest.Contains(t, fmt.Sprint(err), "enough", "a cancelled play")
}
