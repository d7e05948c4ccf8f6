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
	ends := func(err error) func(context.Context) error {
		return func(ctx context.Context) error { <-ctx.Done(); return err }
	}
	now := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, test := range []struct {
		name string
		args string
		f    func(context.Context) error
		code int
		word string
	}{
		{"end", "", now(nil), 0, ""},
		{"error", "", now(broken), 1, "broken"},
		{"interrupted", "", ends(nil), 130, "test: interrupted\n"},
		{"interrupted, as an error", "", ends(program.ErrInterrupted), 130, "test: interrupted\n"},
		{"interrupted while waiting", "", ends(fmt.Errorf("waiting: %w", context.Canceled)), 130, "test: interrupted\n"},
		{"interrupted with an error", "", ends(broken), 130, "interrupted: broken"},
		{"help", "-h", nil, 0, "-zk servers"},
		{"before now", "-timeout -1s", nil, 2, "above 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			p := program.New("test", &stderr)
			code := p.Run(strings.Fields(test.args), func(ctx context.Context, _ *program.ZooKeeper) error {
				if strings.HasPrefix(test.name, "interrupted") {
					interruptMe()
				}
				return test.f(ctx)
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
