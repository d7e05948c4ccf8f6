package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// playEnv, in its environment, makes the test binary the command itself.
const playEnv = "ZKGRANT_TEST_PLAYER"

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, bad := range [][]string{
		{"-nosuch"}, {"more"}, {playCommand}, {playCommand, "one"}, {"-draw", "-o", empty},
	} {
		var printed strings.Builder
		if err := run(t.Context(), bad, strings.NewReader(""), &printed); err == nil {
			t.Errorf("%q is taken: %s", bad, printed.String())
		}
	}
	if err := run(t.Context(), []string{"-h"}, strings.NewReader(""), &strings.Builder{}); err != nil {
		t.Error(err)
	}
}

// contestantOf starts one of the libraries in Go against a server inside the process.
func contestantOf(t *testing.T, key, addr string) *contestant {
	t.Helper()
	for _, l := range append(cachedLibraries(), libraries()...) {
		if l.Key != key {
			continue
		}
		cmd := exec.Command(os.Args[0], playCommand, key, addr)
		cmd.Env = append(os.Environ(), playEnv+"=1")
		c, err := startContestant(l, cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.process.Close(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	t.Fatalf("no library %q", key)
	return nil
}

// TestContestants asks every question of the libraries that need only the in-process server.
func TestContestants(t *testing.T) {
	t.Parallel()
	for _, key := range []string{keyOurs, keyStock, keyBare} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			c := contestantOf(t, key, srv.Addr())
			ask := func(q question, values int) []int64 {
				t.Helper()
				got, err := c.ask(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != values {
					t.Fatalf("the answer to %v has %d values, want %d", q, len(got), values)
				}
				for _, v := range got {
					if v < 0 && q.verb != askHold && q.verb != askHeld { // memory may shrink
						t.Errorf("the answer to %v has %d, want no value below 0", q, v)
					}
				}
				return got
			}
			if _, err := c.ask(t.Context(), question{verb: askCycle, path: "/x/y", n: 1}); !errors.Is(err, errRefused) {
				t.Errorf("a question without a session: %v, want %v", err, errRefused)
			}
			ask(question{verb: askOpen, n: 2}, 0)
			if n := len(srv.Sessions()); n != 2 {
				t.Errorf("%d sessions, want 2", n)
			}
			ask(question{verb: askCycle, path: "/test/one", n: 10}, 10)
			ask(question{verb: askMany, path: "/test/many", n: 5, also: 3}, 1)
			ask(question{verb: askFill, path: "/test/queue", n: 1}, 0)
			ask(question{verb: askFill, path: "/test/queue", n: 7}, 0)
			before := ask(question{verb: askBytes}, 1)
			ask(question{verb: askDrain, n: 6}, 6)
			if after := ask(question{verb: askBytes}, 1); after[0] <= before[0] {
				t.Errorf("bytes: %d, then %d; want more", before[0], after[0])
			}
			if calls := ask(question{verb: askCalls}, 3); slices.Contains(calls, 0) {
				t.Errorf("calls that read, calls that wrote, and allocations are %d; want some of each", calls)
			}
			if _, err := c.ask(t.Context(), question{verb: "nosuch", path: "/x"}); !errors.Is(err, errRefused) {
				t.Errorf("an unknown question: %v, want %v", err, errRefused)
			}
			ask(question{verb: askHold, path: "/test/held", n: 20}, 2)
			ask(question{verb: askHeld}, 2)
			if n := len(srv.Children("/test/held-19")); n != 1 {
				t.Errorf("%d nodes of a lock that is held, want 1", n)
			}
			ask(question{verb: askClose}, 0)
			if n := len(srv.Sessions()); n != 0 {
				t.Errorf("%d sessions are left, want none", n)
			}
			if key != keyOurs {
				ask(question{verb: askOpen, n: 1}, 0)
				ask(question{verb: askUse, path: kindElection}, 0)
				if _, err := c.ask(t.Context(), question{verb: askCycle, path: "/test/one", n: 1}); !errors.Is(err, errRefused) {
					t.Errorf("a kind of lock that the library does not have: %v, want %v", err, errRefused)
				}
				return
			}
			ask(question{verb: askOpen, n: 1}, 0)
			ask(question{verb: askUse, path: kindCached}, 0)
			ask(question{verb: askCycle, path: "/test/cached", n: 10}, 10)
			ask(question{verb: askUse, path: kindSemaphore, n: 4}, 0)
			ask(question{verb: askCycle, path: "/test/permits", n: 3}, 3)
			ask(question{verb: askUse, path: kindMulti, n: 8}, 0)
			ask(question{verb: askCycle, path: "/test/multi", n: 3}, 3)
			ask(question{verb: askUse, path: kindElection}, 0)
			ask(question{verb: askFill, path: "/test/election", n: 4}, 0)
			ask(question{verb: askDrain, n: 3}, 3)
			ask(question{verb: askClose}, 0)
			ask(question{verb: askOpen, n: 1}, 0)
			ask(question{verb: askAwaited, path: "/test/one", n: 10}, 10)
			ask(question{verb: askManyAwaited, path: "/test/many", n: 5, also: 3}, 1)
			ask(question{verb: askExpire, path: "/test/expired", n: 30}, 1)
			for i := range 30 {
				if path := fmt.Sprintf("/test/expired-%d", i); len(srv.Children(path)) != 0 {
					t.Errorf("%s outlived its session", path)
				}
			}
		})
	}
}

// Each measurement compiles the player in Java. This test only finds errors earlier.
func TestThePlayerInJavaCompiles(t *testing.T) {
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
	if err := curator.Compile(t.Context(), t.TempDir(), javaClass, javaPlayer); err != nil {
		t.Error(err)
	}
}
