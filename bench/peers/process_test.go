package peers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// playEnv, in the environment, makes the test binary a process for the tests.
const playEnv = "ZKGRANT_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(playEnv) {
	case "polite": // complains, and ends with its input
		fmt.Fprintln(os.Stderr, "a remark")
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println("heard", in.Text())
		}
		fmt.Println("bye")
	case "failing":
		fmt.Fprintln(os.Stderr, "what went wrong")
		os.Exit(3)
	case "stubborn": // ignores its input
		fmt.Println("ready")
		<-time.After(time.Hour)
	default:
		goleak.VerifyTestMain(m)
	}
}

// start runs a process and returns it with its lines.
func start(t *testing.T, role string) (*Process, <-chan Line) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playEnv+"="+role)
	lines := make(chan Line, 10) // more than the number of lines
	p, err := Start(cmd, func(l Line) { lines <- l })
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = p.Close() }) // the test has checked its result already
	return p, lines
}

func TestProcessEndsWithItsInputAndIsHeardToTheEnd(t *testing.T) {
	t.Parallel()
	p, lines := start(t, "polite")
	eventstest.Must(t, p.Say("this"))
	var heard []string
	for len(heard) < 2 {
		heard = append(heard, eventstest.Receive(t, lines, "a line of the process").Text)
	}
	select {
	case <-p.Ended():
		t.Error("it ended before its input")
	default:
	}
	eventstest.Check(t, p.Close())
	heard = append(heard, (<-lines).Text) // it was handled before Close returned
	if want := []string{"ready", "heard this", "bye"}; !slices.Equal(heard, want) || p.Complaints() != "a remark\n" {
		t.Errorf("heard %q and the complaints %q, want %q and a remark", heard, p.Complaints(), want)
	}
}

func TestProcessThatFailsOrDoesNotEnd(t *testing.T) {
	t.Parallel()
	failing, _ := start(t, "failing")
	eventstest.Receive(t, failing.Ended(), "the end of the process")
	stubborn, lines := start(t, "stubborn")
	eventstest.Receive(t, lines, "a line of the process")
	stubborn.patience = 10 * time.Millisecond
	for p, wants := range map[*Process][]string{failing: {"exit status 3", "what went wrong"}, stubborn: {"did not end", "killed"}} {
		err := p.Close()
		for _, want := range wants {
			found := err != nil && strings.Contains(err.Error(), want)
			eventstest.Expect(t, found, "Close: %v; want %s", err, want)
		}
	}
	killed, lines := start(t, "stubborn")
	eventstest.Receive(t, lines, "a line of the process")
	eventstest.Check(t, killed.Kill())
	eventstest.Receive(t, killed.Ended(), "the end of what was killed")
	eventstest.Check(t, killed.Close())
}
