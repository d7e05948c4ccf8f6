package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stage"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A job that has time comes to a safe point; one that has not loses the lock at the deadline.
func TestTheOperatorHasTheLockInTime(t *testing.T) {
	for name, c := range map[string]struct {
		each      time.Duration
		abandoned int
		lines     []string
	}{
		"in time":  {10 * time.Second, 0, []string{"job: gives the lock back", "operator: has the lock after 5s"}},
		"too slow": {21 * time.Second, 1, []string{"job: LOST the lock: revoked", "operator: has the lock after 8s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.Start(t)
				screen := &stage.Screen{}
				j := &job{tables: 4, each: c.each, say: func(format string, args ...any) { fmt.Fprintf(screen, format+"\n", args...) }}
				opt := options{tables: 4, each: c.each, after: 25 * time.Second, grace: 8 * time.Second}
				if err := run(t.Context(), program.Within(server, 6*time.Second), opt, j); err != nil {
					t.Error(err)
				}
				screen.Must(t, append(c.lines, "job: the lock is wanted back within 8s", fmt.Sprintf("copied 4, abandoned %d", c.abandoned))...)
				if screen.Count("job: has the lock") != 2 || screen.Count("wanted back") != 1 {
					t.Errorf("%s", screen)
				}
				if left := server.Sessions(); len(left) > 0 {
					t.Errorf("sessions left: %v", left)
				}
			})
		})
	}
}

func TestOnServers(t *testing.T) {
	for name, servers := range map[string]string{"inside": "", "double": zktest.Start(t).Addr(), "real": ensemble.Start(t, 1).Connect()} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"-tables", "3", "-table", "300ms", "-after", "400ms"}
			if servers != "" {
				args = append(args, "-zk", servers)
			}
			if code := command(args, &stdout, &stderr); code != 0 || !bytes.Contains(stdout.Bytes(), []byte("operator: has the lock")) {
				t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	var stderr bytes.Buffer
	if code := command([]string{"-grace", "-1s"}, os.Stdout, &stderr); code != 2 || stderr.Len() == 0 {
		t.Errorf("exit code %d, %q; want 2 and a word why", code, &stderr)
	}
}
