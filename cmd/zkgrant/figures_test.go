//go:build unix

package main

import (
	"bytes"
	"fmt"
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

// The file has the outcome of each run, and keeps the latest success and the number of
// losses.
func TestTextfile(t *testing.T) {
	g := double(parallel(t))
	file := filepath.Join(t.TempDir(), "backup.prom")
	run := "run --textfile " + file + " " + lockPath
	began := time.Now()
	g.ends(0, run+" -- true")
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
		for name, want := range map[string]float64{
			"last_exit_code": code, "losses_total": lost, "last_success_timestamp_seconds": first,
		} {
			eventstest.Equal(t, figure(t, file, name), want, "after code %v %s", code, name)
		}
	}
	g.ends(7, run+" --min-hold 300ms -- part exit 7")
	check(7, 0, 0.3, 0)
	holder := g.works("run " + lockPath + " -- part wait")
	wait := g.enough(300 * time.Millisecond) // for a server's first answer
	g.ends(0, fmt.Sprintf("%s --wait %v -E 0 -- true", run, wait))
	check(0, wait.Seconds(), 0, 0)
	g.stop(holder, syscall.SIGTERM, 0)
	loser := g.works(run + " -- part wait")
	g.expire()
	loser.Exits(codeLost)
	check(codeLost, 0, 0, 1)
	g.ends(codeNotFound, run+" -- no-such-command")
	check(codeNotFound, 0, 0, 1)
	g.ends(codeFailed, run+" --size -1 -- true")
	check(codeFailed, 0, 0, 1)
	elect := g.works("elect --again --textfile " + file + " " + lockPath + " -- part wait")
	g.expire()
	elect.Await(t, "ready", 2)
	check(codeLost, 0, 0, 2)
	g.stop(elect, syscall.SIGUSR2, 5)
	check(5, 0, 0, 2)
}

// A folder that does not answer delays run by two seconds at most.
func TestATextfileInAFolderThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, block := time.Now(), make(chan struct{})
		eventstest.ErrorIs(t, within(toWrite, func() error { <-block; return nil }), errSilent, "writing")
		eventstest.Equal(t, time.Since(began), 2*time.Second, "the time that writing takes")
		close(block)
	})
}
