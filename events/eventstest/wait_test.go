package eventstest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hangs is the variable that is set in the process in which the test hangs.
const hangs = "ZKGRANT_TEST_HANGS"

// TestAHangIsToldByTheLineThatWaits: a test that hangs in virtual time is ended soon,
// with the line in which it waits. If a goroutine is in time.Sleep, it is ended at the
// limit.
func TestAHangIsToldByTheLineThatWaits(t *testing.T) {
	if os.Getenv(hangs) != "" {
		eventstest.Bubble(t, func(t *testing.T) {
			never := make(chan int)
			defer time.AfterFunc(2*eventstest.Limit, func() { close(never) }).Stop()
			if os.Getenv(hangs) == "asleep" {
				go time.Sleep(2 * eventstest.Limit)
			}
			eventstest.Doing(t, "the seventh step")
			<-never
		})
	}
	text, err := os.ReadFile("wait_test.go")
	eventstest.Must(t, err)
	before, _, _ := strings.Cut(string(text), "\t\t\t<-never\n")
	line := fmt.Sprintf("wait_test.go:%d\n", 1+strings.Count(before, "\n"))
	for how, why := range map[string][]string{
		"awake":  {"is not over after 20m0s", "for 10m0s it has waited in the same line, with no goroutine in time.Sleep"},
		"asleep": {"is not over after " + eventstest.Limit.String(), "the limit is " + eventstest.Limit.String()},
	} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), hangs+"="+how)
		out, err := command.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: the hanging test ended with %v:\n%s", how, err, out)
		}
		for _, want := range append(why, "\tthe seventh step\n", line) {
			eventstest.Contains(t, string(out), want, "the hanging test, %s", how)
		}
	}
}
