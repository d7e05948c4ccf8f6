package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExitCodes(t *testing.T) {
	broken := errors.New("broken")
	wait := func(ctx context.Context, _ *program.ZooKeeper) error {
		<-ctx.Done()
		return nil
	}
	interruptMe := func(t *testing.T) {
		t.Helper()
		me, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := me.Signal(os.Interrupt); err != nil {
			t.Skipf("%v: to see this, run the test where a process can interrupt itself, as on Linux or macOS", err)
		}
	}
	interrupted := func(err error) func(context.Context, *program.ZooKeeper) error {
		return func(ctx context.Context, _ *program.ZooKeeper) error {
			interruptMe(t)
			<-ctx.Done()
			return err
		}
	}
	for _, test := range []struct {
		name string
		args []string
		f    func(context.Context, *program.ZooKeeper) error
		code int
		word string
	}{
		{"end", nil, func(context.Context, *program.ZooKeeper) error { return nil }, 0, ""},
		{"error", nil, func(context.Context, *program.ZooKeeper) error { return broken }, 1, "broken"},
		{"time is up", []string{"-for", "1ms"}, wait, 0, ""},
		{"time is up, as an error", []string{"-for", "1ms"}, func(ctx context.Context, _ *program.ZooKeeper) error {
			<-ctx.Done()
			return fmt.Errorf("waiting: %w", context.Cause(ctx))
		}, 0, ""},
		{"error when time is up", []string{"-for", "1ms"}, func(ctx context.Context, _ *program.ZooKeeper) error {
			<-ctx.Done()
			return broken
		}, 1, "broken"},
		{"interrupted", []string{"-for", "0"}, interrupted(nil), 130, "test: interrupted\n"},
		{"interrupted, as an error", nil, interrupted(program.ErrInterrupted), 130, "test: interrupted\n"},
		{"interrupted while waiting", nil, interrupted(fmt.Errorf("waiting: %w", context.Canceled)), 130, "test: interrupted\n"},
		{"error when interrupted", nil, interrupted(broken), 130, "interrupted: broken"},
		{"help", []string{"-h"}, nil, 0, "-zk servers"},
		{"unknown flag", []string{"-nosuchflag"}, nil, 2, "nosuchflag"},
		{"argument", []string{"argument"}, nil, 2, "no arguments"},
		{"no timeout", []string{"-timeout", "0s"}, nil, 2, "above 0"},
		{"no count", []string{"-count", "0"}, nil, 2, "above 0"},
		{"before now", []string{"-for", "-1s"}, nil, 2, "above 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			p := program.New("test", &stderr)
			p.For(time.Minute)
			p.Flags.Int("count", 1, "something that is counted")
			if code := p.Run(test.args, test.f); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if said := stderr.String(); !strings.Contains(said, test.word) || (said == "") != (test.word == "") {
				t.Errorf("said %q, want %q", said, test.word)
			}
		})
	}
}

// Without -zk the server is inside the program, and ends with it.
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
	if code != 0 || !strings.Contains(zk.String(), "inside this program") {
		t.Errorf("exit code %d at %v", code, zk)
	}
	if _, err := zk.Inside.DialContext(t.Context(), "tcp", zk.Servers); err == nil {
		t.Error("the server still answers")
	}
}

// With -zk the program starts no server.
func TestServersOutside(t *testing.T) {
	zk, err := program.Open("host:1234/app", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer zk.Close()
	if zk.Inside != nil || zk.String() != "ZooKeeper at host:1234/app" || len(zk.Options()) != 1 {
		t.Errorf("%v with %d options, a server inside: %t", zk, len(zk.Options()), zk.Inside != nil)
	}
}
