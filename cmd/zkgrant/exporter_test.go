//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// exports starts an exporter, and returns its address.
func exports(t *testing.T, servers string, args ...string) (p *eventstest.Process, url string) {
	t.Helper()
	p = begin(t, "", append([]string{"exporter", "--servers", servers, "--listen", "127.0.0.1:0"}, args...)...)
	p.Await(t, "/metrics", 1)
	return p, regexp.MustCompile(`http://[0-9.:]+/`).FindString(p.String())
}

// got returns a page.
func got(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	eventstest.Must(t, err)
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	eventstest.Must(t, err)
	return string(text)
}

// shows waits until a page has all the lines.
func shows(ctx context.Context, t *testing.T, url string, lines ...string) {
	t.Helper()
	var page string
	eventstest.Eventually(t, strings.Join(lines, ", "), func() bool {
		page = got(ctx, t, url)
		all := strings.Split(page, "\n")
		return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(all, line) })
	}, func() string { return page })
}

func testExporter(t *testing.T, servers string) {
	t.Helper()
	ctx := eventstest.Patiently(t, time.Minute)
	c, err := coordinator.Connect(ctx, servers)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	held := []*coordinator.Acquisition{
		c.Mutex("/app/jobs/held").Acquire(ctx), c.Semaphore("/app/limits/three", 3).Acquire(ctx, coordinator.WithPermits(2)), c.Mutex("/elsewhere").Acquire(ctx),
	}
	for i := range 3 {
		held = append(held, c.Mutex(fmt.Sprintf("/app/tasks/%d", i)).Acquire(ctx))
	}
	for _, a := range held {
		_, err := a.Wait(ctx)
		eventstest.Must(t, err)
	}
	const kazoos = "/app/jobs/held/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f__lock__0000000007"
	_, err = held[0].Txn(ctx, &zk.CreateRequest{Path: kazoos, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	eventstest.Must(t, err)

	p, url := exports(t, servers, "--interval", "100ms", "--max-locks", "2", "/app")
	shows(ctx, t, url+"metrics",
		`zkgrant_queue_held{kind="mutex",lock="/app/jobs/held"} 1`,
		`zkgrant_queue_waiting{kind="mutex",lock="/app/jobs/held"} 1`,
		`zkgrant_queue_held{kind="semaphore",lock="/app/limits/three"} 2`,
		`zkgrant_queue_held{kind="mutex",lock="/app/tasks/*"} 3`,
		`zkgrant_queue_poll_errors_total 0`,
		`zkgrant_session_state{state="connected"} 1`)
	if page := got(ctx, t, url+"metrics"); strings.Contains(page, "elsewhere") || strings.Contains(page, "/app/tasks/1") {
		t.Errorf("exported is\n%s\nwant nothing above the root, and one label of three tasks", page)
	}
	if page := got(ctx, t, url); !strings.Contains(page, `href="metrics"`) || !strings.Contains(page, "/app") {
		t.Errorf("the first page is\n%s\nwant the root and a link", page)
	}
	held[0].Release()
	<-held[0].Done()
	shows(ctx, t, url+"metrics", `zkgrant_queue_held{kind="mutex",lock="/app/jobs/held"} 1`, `zkgrant_queue_waiting{kind="mutex",lock="/app/jobs/held"} 0`)
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

// TestExporter exports the nodes of every library.
func TestExporter(t *testing.T) {
	t.Parallel()
	testExporter(t, zktest.Start(t).Addr())
}

// TestExporterSaysWhereItServes checks that it says so for programs, too, and that by default it serves this machine alone.
func TestExporterSaysWhereItServes(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	p, url := exports(t, server.Addr(), "--json", "/")
	var line struct{ Event, URL string }
	if err := json.Unmarshal([]byte(p.String()), &line); err != nil || line.Event != "serving" || line.URL != url+"metrics" {
		t.Errorf("it says %s (%v), want serving with the url %smetrics", p, err, url)
	}
	if r := fetch(t, "GET", url+"metrics", "", "Host", "evil.example:80"); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %s, want 421", r.Status)
	}
	if p.Count("every client") > 0 {
		t.Errorf("on a loopback address it warns:\n%s", p)
	}
	open, _ := exports(t, server.Addr(), "--listen", "0.0.0.0:0", "/")
	open.Await(t, "every client that can reach it sees the locks", 1)
}

func TestRealExporter(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	testExporter(t, ensemble.Start(t, 1).Connect())
}

// TestExporterInAnOutage checks that it answers each scrape at once, after some seconds with the errors and no locks, and ends when it is asked to.
func TestExporterInAnOutage(t *testing.T) {
	t.Parallel()
	ctx := eventstest.Patiently(t, time.Minute)
	server := zktest.Start(t)
	eventstest.Must(t, server.Create("/locks/a/_c_00000000-0000-4000-8000-000000000000-lock-0000000000", nil))
	p, url := exports(t, server.Addr(), "--session-timeout", "4s", "--interval", "1ms", "--poll-timeout", "100ms", "/")
	shows(ctx, t, url+"metrics", `zkgrant_queue_held{kind="unknown",lock="/locks/a"} 1`)
	server.Down(true)
	shows(ctx, t, url+"metrics", `zkgrant_session_state{state="suspended"} 1`)
	var page string
	eventstest.Eventually(t, "without a server there are errors and no locks", func() bool {
		page = got(ctx, t, url+"metrics")
		return !strings.Contains(page, "queue_held{") && !strings.Contains(page, "errors_total 0\n")
	}, func() string { return page })
	server.Down(false)
	shows(ctx, t, url+"metrics", `zkgrant_queue_held{kind="unknown",lock="/locks/a"} 1`, `zkgrant_session_state{state="connected"} 1`)
	p.Send(os.Interrupt)
	p.Exits(0)
	if left := server.Sessions(); len(left) > 0 {
		t.Errorf("after its end there are the sessions %v, want none", left)
	}
}

func TestExporterOfBadArguments(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	for _, args := range [][]string{{}, {"bad"}, {"/zookeeper"}, {"--listen", "nowhere", "/"}, {"--interval", "0s", "/"}} {
		begin(t, "", append([]string{"exporter", "--servers", server.Addr()}, args...)...).Exits(codeFailed)
	}
}
