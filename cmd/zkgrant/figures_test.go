//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// figure returns a value of the file, or -1.
func figure(t *testing.T, file, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	found := regexp.MustCompile(`(?m)^zkgrant_run_` + name + `{path="` + lockPath + `"} (\S+)$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	eventstest.Must(t, err)
	return value
}

// Each end of run is in the file, and the latest success and the losses stay there.
func TestTextfile(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	file := filepath.Join(t.TempDir(), "backup.prom")
	flags := []string{"--textfile", file}
	began := time.Now()
	locked(t, server, flags, "exit", "0").Exits(0)
	first := figure(t, file, "last_success_timestamp_seconds")
	if now := float64(time.Now().Unix()); first < float64(began.Unix()) || first > now+1 {
		t.Errorf("the success is said to be of %v, want %v to %v", first, began.Unix(), now)
	}
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	if problems, err := promlint.New(bytes.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("Prometheus finds fault with the file: %v, %v\n%s", err, problems, text)
	}
	check := func(code, waited, held, lost float64) {
		t.Helper()
		for name, least := range map[string]float64{"last_waited_seconds": waited, "last_held_seconds": held} {
			if got := figure(t, file, name); got < least || got > least+30 || least == 0 && got > 5 {
				t.Errorf("after code %v %s is %v, want %v or a little more", code, name, got, least)
			}
		}
		if figure(t, file, "last_exit_code") != code || figure(t, file, "losses_total") != lost || figure(t, file, "last_success_timestamp_seconds") != first {
			text, _ := os.ReadFile(file)
			t.Errorf("want code %v, losses %v and the first success; the file is\n%s", code, lost, text)
		}
	}
	locked(t, server, append(flags, "--min-hold", "300ms"), "exit", "7").Exits(7)
	check(7, 0, 0.3, 0)
	holder := locked(t, server, nil, "wait")
	ready(t, holder, "command")
	locked(t, server, append(flags, "--wait", "300ms", "-E", "0"), "exit", "0").Exits(0)
	check(0, 0.3, 0, 0)
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
	run := locked(t, server, flags, "wait")
	ready(t, run, "command")
	expire(t, server)
	run.Exits(codeLost)
	check(codeLost, 0, 0, 1)
	begin(t, "", "run", "--textfile", file, "--servers", server.Addr(), lockPath, "--", "no-such-command").Exits(codeNotFound)
	check(codeNotFound, 0, 0, 1)
	locked(t, server, append(flags, "--size", "-1"), "exit", "0").Exits(codeFailed)
	check(codeFailed, 0, 0, 1)
	elect := begin(t, "", append([]string{"elect", "--again", "--textfile", file, "--servers", server.Addr(), lockPath}, commandLine("wait")...)...)
	ready(t, elect, "command")
	expire(t, server)
	elect.Await(t, "ready", 2)
	check(codeLost, 0, 0, 2)
	elect.Send(syscall.SIGUSR2)
	elect.Exits(5)
	check(5, 0, 0, 2)
}

// A file that cannot be written is said, and costs neither the command's code nor the lock.
func TestATextfileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := locked(t, server, []string{"-v=false", "--textfile", filepath.Join(t.TempDir(), "none", "a.prom")}, "exit", "7")
	run.Exits(7)
	run.Must(t, "none/a.prom: ", "no such file")
	for _, file := range []string{os.DevNull, t.TempDir()} {
		run = locked(t, server, []string{"--textfile", file}, "exit", "7")
		run.Exits(codeFailed)
		run.Must(t, "--textfile "+file+": not a regular file")
	}
	nodes(t, server, 0, "when run has ended")
}

// A folder that does not answer holds run up for two seconds.
func TestATextfileInAFolderThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, block := time.Now(), make(chan struct{})
		err := within(toWrite, func() error { <-block; return nil })
		if took := time.Since(began); !errors.Is(err, errSilent) || took != 2*time.Second {
			t.Errorf("%v after %v, want %v after 2s", err, took, errSilent)
		}
		close(block)
	})
}
