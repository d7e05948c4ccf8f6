package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// contendEnv, in its environment, makes the test binary the command itself.
const contendEnv = "ZKGRANT_TEST_CONTENDER"

func TestMain(m *testing.M) {
	if os.Getenv(contendEnv) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// command is the command of a contender in Go.
func command(l library, at seat) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{contendCommand}, formatSeat(l.Key, at)...)...)
	cmd.Env = append(os.Environ(), contendEnv+"=1")
	return cmd
}

func TestSeatOnTheCommandLine(t *testing.T) {
	t.Parallel()
	want := seat{addr: "127.0.0.1:2181", path: "/a/b", timeout: 6 * time.Second, tick: 1500 * time.Millisecond}
	library, got, err := parseSeat(formatSeat(keyOurs, want))
	if library != keyOurs || got != want || err != nil {
		t.Errorf("the seat became %q, %+v, %v; want %q, %+v", library, got, err, keyOurs, want)
	}
	for _, bad := range [][]string{
		nil, {"x"}, {keyOurs, "a", "b", "6", "1s"}, {keyOurs, "a", "b", "6s", "x"}, {keyOurs, "a", "b", "6s", "1s", "more"},
	} {
		if _, _, err := parseSeat(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, bad := range [][]string{
		{"-runs", "0"}, {"-timeout", "3s"}, {"-heal", "11s"}, {"-nosuch"}, {"more"}, {contendCommand}, {"-draw", "-o", empty},
		append([]string{contendCommand}, formatSeat("nosuch", seat{})...),
	} {
		var printed strings.Builder
		if err := run(t.Context(), bad, strings.NewReader(""), &printed); err == nil {
			t.Errorf("%q is taken: %s", bad, printed.String())
		}
	}
}

// Each measurement compiles the contender in Java. This test only finds errors earlier.
func TestTheContenderInJavaCompiles(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	zookeeper, err := ensemble.Find()
	if err != nil {
		t.Fatal(err)
	}
	curator, err := peers.FindCurator(zookeeper)
	if err != nil {
		t.Fatal(err)
	}
	if err := curator.Compile(t.Context(), t.TempDir(), contenderClass, javaContender); err != nil {
		t.Error(err)
	}
}
