package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExitCodes(t *testing.T) {
	broken := errors.New("broken")
	interruptMe := func() {
		me, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = me.Signal(os.Interrupt)
		}
		if err != nil {
			t.Skipf("%v: to see this, run the test where a process can interrupt itself, as on Linux or macOS", err)
		}
	}
	for _, test := range []struct {
		name string
		args string
		err  error // what the function returns; when interrupted, after the end of its context
		code int
		word string
	}{
		{"end", "", nil, 0, ""},
		{"error", "", broken, 1, "broken"},
		{"interrupted", "", nil, 130, "test: interrupted\n"},
		{"interrupted, as an error", "", program.ErrInterrupted, 130, "test: interrupted\n"},
		{"interrupted while waiting", "", fmt.Errorf("waiting: %w", context.Canceled), 130, "test: interrupted\n"},
		{"interrupted with an error", "", broken, 130, "interrupted: broken"},
		{"help", "-h", broken, 0, "-zk servers"}, // it is not called
		{"before now", "-timeout -1s", broken, 2, "above 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			p := program.New("test", &stderr)
			code := p.Run(strings.Fields(test.args), func(ctx context.Context, _ *program.ZooKeeper) error {
				if strings.HasPrefix(test.name, "interrupted") {
					interruptMe()
					<-ctx.Done()
				}
				return test.err
			})
			eventstest.Equal(t, code, test.code, "exit code")
			said := stderr.String()
			eventstest.Expect(t, strings.Contains(said, test.word) && (said == "") == (test.word == ""),
				"said %q, want %q", said, test.word)
		})
	}
}

// Without -zk the server runs inside the program, and stops with it.
func TestServerInside(t *testing.T) {
	var zk *program.ZooKeeper
	code := program.New("test", os.Stderr).Run(nil, func(ctx context.Context, z *program.ZooKeeper) error {
		zk = z
		c, err := coordinator.Connect(ctx, z.Servers, z.Options()...)
		if err != nil {
			return err
		}
		return c.Close()
	})
	eventstest.Expect(t, code == 0 && strings.Contains(zk.String(), "inside this program"),
		"exit code %d at %v", code, zk)
	_, err := zk.Inside.DialContext(t.Context(), "tcp", zk.Servers)
	eventstest.Expect(t, err != nil, "the server still answers")
}
