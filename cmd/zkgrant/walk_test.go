//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// forestOf returns a server with a lock, n directories without one, and another lock, in this order.
func forestOf(t *testing.T, n int) *zktest.Server {
	t.Helper()
	server := zktest.Start(t)
	for _, at := range []string{"/app/a/lock-0000000000", "/app/z/lock-0000000000", "/other/lock-0000000000"} {
		eventstest.Must(t, server.Create(at, nil))
	}
	for i := range n {
		eventstest.Must(t, server.Create(fmt.Sprintf("/app/bare/%05d", i), nil))
	}
	return server
}

// readsOf returns how many listings and readings a server has seen.
func readsOf(server *zktest.Server) int {
	return server.Requests(zktest.OpGetChildren2) + server.Requests(zktest.OpGetData)
}

// TestAWalkNeedsARoot, unless the servers have a chroot.
func TestAWalkNeedsARoot(t *testing.T) {
	t.Parallel()
	server := forestOf(t, 0)
	const needs = "name the path below which to look"
	for _, command := range []string{"ls", "board", "exporter"} {
		p := begin(t, "", command, "--servers", server.Addr())
		p.Exits(codeFailed)
		p.Must(t, needs)
	}
	if view := beginTerminal(t, nil, "top", "--servers", server.Addr()); view != nil {
		view.shows(needs)
		view.exits(codeFailed)
	}
	if n := readsOf(server); n > 0 {
		t.Errorf("commands without a root have read %d times, want never", n)
	}
	for _, test := range []struct {
		servers string
		args    []string
		want    string
	}{
		{server.Addr(), []string{"/"}, "/app/a /app/z /other"},
		{server.Addr() + "/app", nil, "/a /z"},
		{server.Addr() + "/app", []string{"/z"}, "/z"},
	} {
		p := begin(t, "", append([]string{"ls", "--servers", test.servers}, test.args...)...)
		p.Exits(0)
		var paths []string
		for line := range strings.Lines(p.String()) {
			paths = append(paths, strings.Fields(line)[0])
		}
		if got := strings.Join(paths[1:], " "); got != test.want {
			t.Errorf("ls %q of %s lists %s, want %s", test.args, test.servers, got, test.want)
		}
	}
	view := beginTerminal(t, nil, "top", "--servers", server.Addr()+"/app")
	view.shows("/a", "/z", "2 locks")
	view.types("q")
	view.exits(0)
	_, url := exports(t, server.Addr()+"/app")
	shows(eventstest.Patiently(t, time.Minute), t, url+"metrics", `zkgrant_queue_held{kind="unknown",lock="/a"} 1`)
	p := begin(t, "", "doctor", "--json", "--servers", server.Addr()+"/app")
	p.Exits(codeBad)
	p.Must(t, `"check":"persistent","subject":"/a"`)
}

// TestAWalkPrintsAsItGoes, at the rate that it was given, and says on a terminal how far it is.
func TestAWalkPrintsAsItGoes(t *testing.T) {
	t.Parallel()
	const nodes, rate = 150, 100
	server := forestOf(t, nodes)
	for _, command := range []string{"ls", "doctor"} {
		before, begun := readsOf(server), time.Now()
		printed := make(chan struct{})
		server.Intercept(func(r zktest.Request) zktest.Action {
			if r.Path == fmt.Sprintf("/app/bare/%05d", nodes-1) { // the walk goes on when the first lock is printed
				select {
				case <-printed:
				case <-t.Context().Done():
				}
			}
			return zktest.Pass()
		})
		p := begin(t, "", command, "--rate", fmt.Sprint(rate), "--servers", server.Addr(), "/app")
		p.Await(t, "/app/a ", 1)
		close(printed)
		p.Await(t, "/app/z ", 1)
		p.Exits(map[string]int{"doctor": codeBad}[command])
		n, took := readsOf(server)-before, time.Since(begun)
		if most := int(took.Seconds()*rate) + rate/10; n > most || n < nodes {
			t.Errorf("%s has read %d times within %v, want all of the tree, and at most %d", command, n, took, most)
		}
		if p.Count("nodes") > 0 && command == "ls" {
			t.Errorf("without a terminal ls says\n%s\nwant no progress", p)
		}
		view := beginTerminal(t, nil, command, "--rate", fmt.Sprint(rate), "--servers", server.Addr(), "/app")
		eventstest.Eventually(t, "it says how many nodes it has looked at", func() bool {
			return strings.Contains(view.printed(), "nodes looked at") || strings.Contains(view.printed(), "nodes so far")
		})
		view.exits(map[string]int{"doctor": codeBad}[command]) // the next command is counted
	}
	bad := begin(t, "", "ls", "--rate", "0", "--servers", server.Addr(), "/app")
	bad.Exits(codeFailed)
	bad.Must(t, "--rate 0: want 1 or more")
}

// TestAQueueReadsNothingBelow: queue and watch look at one path.
func TestAQueueReadsNothingBelow(t *testing.T) {
	t.Parallel()
	server := forestOf(t, 300)
	for path, want := range map[string]string{"/app": "no holders, no waiters", "/app/a": "holds"} {
		before := readsOf(server)
		p := begin(t, "", "queue", "--servers", server.Addr(), path)
		p.Exits(0)
		p.Must(t, want)
		if n := readsOf(server) - before; n > 2 {
			t.Errorf("queue %s has read %d times, want twice at most", path, n)
		}
	}
}
