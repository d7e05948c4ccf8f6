//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// client connects a client of another project until the test ends.
func client(t *testing.T, servers string) *zk.Conn {
	t.Helper()
	conn, news, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogger(eventstest.Quiet{}))
	eventstest.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range news { // closed when the client's goroutines have ended
		}
	})
	return conn
}

func (g *rig) coordinator(more ...coordinator.Option) *coordinator.Coordinator {
	g.t.Helper()
	more = append(more, coordinator.WithSessionTimeout(10*time.Second))
	c, err := coordinator.Connect(g.t.Context(), g.servers, more...)
	eventstest.Must(g.t, err)
	g.t.Cleanup(func() { eventstest.Check(g.t, c.Close()) })
	return c
}

// A permit is handed on. The waiter's node is replaced by one in another directory, but
// watch reports a single contender.
func testWatch(t *testing.T, g *rig) {
	c := g.coordinator()
	acquire := func(name string) *coordinator.Acquisition {
		return c.Semaphore("/watch/permit", 1).Acquire(t.Context(), coordinator.Data([]byte(name)))
	}
	first := acquire("first")
	eventstest.Receive(t, first.Granted(), "the permit")
	second := acquire("second")
	defer second.Release()
	eventstest.Eventually(t, "the second is in the queue", func() bool {
		_, queued := second.Position()
		return queued
	})
	watch := g.until("second", "watch /watch/permit")
	first.Release()
	eventstest.Receive(t, second.Granted(), "the permit")
	watch.Await(t, "holds     second", 1)
	g.stop(watch, os.Interrupt, 0)
	matches(t, "watch", watch, `^\S+  holds     first  .*\n\S+  waits     second  .*\n`+
		`(\S+  has gone  first  .*\n\S+  holds     second  .*\n)$`)
}

// There are two nodes: that of a cached lock, which stays after its release, and that of
// a held lock.
func testIdle(t *testing.T, g *rig) {
	c, data := g.coordinator(), coordinator.Data([]byte("host-7"))
	cached := c.Mutex("/idle/cached", coordinator.Cached())
	for range 2 { // the second node stays
		nothing := func(context.Context, events.Grant) error { return nil }
		eventstest.Must(t, cached.Do(t.Context(), nothing, data))
	}
	held := c.Mutex("/idle/held").Acquire(t.Context(), data)
	defer held.Release()
	eventstest.Receive(t, held.Granted(), "the lock")
	for line, want := range map[string]string{
		"queue /idle/cached":        `(?m)^holds, may be idle +lock .* host-7$`,
		"queue /idle/held":          `(?m)^holds +lock .* host-7$`,
		"queue --json /idle/cached": `"holding":true,.*"may_be_idle":true,`,
		"queue --json /idle/held":   `"token":\d+,"data"`,
		"ls /idle":                  `/idle/cached +mutex +host-7, may be idle +0\n/idle/held +mutex +host-7 +0\n`,
	} {
		matches(t, line, g.ends(0, line), want)
	}
	watch := g.until(", may be idle", "watch /idle/cached")
	g.stop(watch, os.Interrupt, 0)
}

// TestWatchIsOvertaken while it asks why there cannot be an unfair lock at the path: the
// directory of a lock is gone again, or watch is interrupted.
func TestWatchIsOvertaken(t *testing.T) {
	const path = "/locks/a"
	for name, goesOn := range map[string]bool{"the directory is gone": true, "interrupted": false} {
		eventstest.Bubble(t, func(t *testing.T) {
			g := double(t)
			c := g.coordinator(g.Option())
			ctx, interrupt := context.WithCancel(t.Context())
			var reads atomic.Int32
			g.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpGetData && r.Path == path && reads.Add(1) == 3 {
					if goesOn {
						eventstest.Check(t, g.Delete(path))
					} else {
						interrupt()
					}
				}
				return zktest.Pass()
			})
			var out bytes.Buffer
			watching := make(chan error, 1)
			go func() { watching <- new(settings).watch(ctx, &out, c, path) }()
			synctest.Wait()
			eventstest.Must(t, g.Create(path, nil))
			time.Sleep(5 * time.Second)
			eventstest.Expect(t, reads.Load() >= 3 && len(watching) == 0 == goesOn,
				"%s: after %d reads, %d watches have ended", name, reads.Load(), len(watching))
			eventstest.Must(t, g.Create(path+"/lock-0000000000", []byte("first")))
			time.Sleep(5 * time.Second)
			interrupt()
			eventstest.Must(t, <-watching)
			eventstest.Equal(t, strings.Contains(out.String(), "  first  "), goesOn, "%s: watch prints the contender", name)
		})
	}
}

// TestElectWatchIsOvertaken while it asks why the leader cannot be read: there is another
// one.
func TestElectWatchIsOvertaken(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		g := double(t)
		c := g.coordinator(g.Option())
		_, err := c.Election("/leader").Hold(t.Context(), coordinator.Data([]byte("ann")))
		eventstest.Must(t, err)
		ctx, interrupt := context.WithCancel(t.Context())
		var refused atomic.Bool
		g.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpGetData && strings.HasPrefix(r.Path, "/leader/") && refused.CompareAndSwap(false, true) {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		var out bytes.Buffer
		watching := make(chan error, 1)
		go func() { watching <- new(settings).leaders(ctx, &out, c.Election("/leader")) }()
		time.Sleep(5 * time.Second)
		interrupt()
		eventstest.Must(t, <-watching)
		eventstest.Expect(t, refused.Load(), "no read was refused, want one")
		eventstest.Contains(t, out.String(), "ann leads", "what is printed after the refusal")
	})
}

// answer is a page's response: the status, and the body or, if it has no end, the stream.
type answer struct {
	status int
	body   string
	stream *bufio.Scanner
}

// fetch sends a request. The header Host sets the request's host.
func fetch(t *testing.T, method, url, body string, header ...string) (a answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	eventstest.Must(t, err)
	r.Close = true
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	response, err := http.DefaultClient.Do(r)
	eventstest.Must(t, err)
	if a.status = response.StatusCode; strings.HasSuffix(url, "/events") {
		t.Cleanup(func() { _ = response.Body.Close() }) // it has no end
		a.stream = bufio.NewScanner(response.Body)
		return a
	}
	all, err := io.ReadAll(response.Body)
	eventstest.Must(t, err)
	eventstest.Check(t, response.Body.Close())
	a.body = string(all)
	return a
}

func (a answer) must(t *testing.T, what string, status int) {
	t.Helper()
	eventstest.Expect(t, a.status == status, "%s: %d %s, want %d", what, a.status, a.body, status)
}

// serves starts a program that serves a page, and returns its address.
func (g *rig) serves(line string) (p *eventstest.Process, url string) {
	g.t.Helper()
	p = g.until("http://", line+" --listen 127.0.0.1:0")
	p.Await(g.t, "\n", 1)
	return p, regexp.MustCompile(`http://[0-9.:]+/`).FindString(p.String())
}

// The board serves until it is interrupted. It revokes locks if that is enabled, but not
// for another site.
func testBoard(t *testing.T, g *rig) {
	holder := g.works("run --revocable /board/run --data ann -- part wait")
	p, url := g.serves("board /board")
	prints(t, fetch(t, "GET", url, "").body, "<!doctype html>", true)
	for _, of := range []string{`"path":"/board/run"`, `"data":"ann"`} {
		prints(t, fetch(t, "GET", url+"queues.json", "").body, of, true)
	}
	fetch(t, "GET", url, "", "Host", "evil.example:80").must(t, "for another host", http.StatusMisdirectedRequest)
	fetch(t, "POST", url+"revoke", "{}").must(t, "a revocation", http.StatusForbidden)
	g.stop(p, syscall.SIGTERM, 0)

	p, url = g.serves("board --allow-revoke /board")
	p.Await(t, "every client that can reach it may revoke locks", 1)
	var first struct {
		Locks []struct{ ID string }
	}
	for stream := fetch(t, "GET", url+"events", "").stream; len(first.Locks) == 0; {
		if !stream.Scan() {
			t.Fatal(stream.Err())
		}
		if data, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
			eventstest.Must(t, json.Unmarshal([]byte(data), &first))
		}
	}
	body := fmt.Sprintf(`{"lock":%q,"grace_seconds":60}`, first.Locks[0].ID)
	header := []string{"Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"}
	fetch(t, "POST", url+"revoke", body, header...).must(t, "a revocation by another site", http.StatusForbidden)
	// A browser's request through a proxy that sets Host, as in docs/board.md.
	proxied := slices.Concat(header[:2], []string{"Origin", "https://board.example"})
	fetch(t, "POST", url+"revoke", body, proxied...).must(t, "a revocation through a proxy without TLS", http.StatusForbidden)
	proxied = append(proxied, "Sec-Fetch-Site", "same-origin")
	fetch(t, "POST", url+"revoke", body, proxied...).must(t, "a revocation", http.StatusNoContent)
	holder.Exits(0)
}

// shows waits until the page of an exporter has all the lines, and returns it.
func shows(t *testing.T, url string, lines ...string) (page string) {
	t.Helper()
	eventstest.Eventually(t, strings.Join(lines, ", "), func() bool {
		page = fetch(t, "GET", url+"metrics", "").body
		all := strings.Split(page, "\n")
		return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(all, line) })
	}, func() string { return page })
	return page
}

// The exporter counts the nodes of every library.
func testExporter(t *testing.T, g *rig) {
	ctx := eventstest.Patiently(t, time.Minute)
	c := g.coordinator()
	held := []*coordinator.Acquisition{
		c.Mutex("/app/jobs/held").Acquire(ctx), c.Mutex("/elsewhere").Acquire(ctx),
		c.Semaphore("/app/limits/three", 3).Acquire(ctx, coordinator.Permits(2)),
	}
	for i := range 3 {
		held = append(held, c.Mutex(fmt.Sprint("/app/tasks/", i)).Acquire(ctx))
	}
	for _, a := range held {
		_, err := a.Wait(ctx)
		eventstest.Must(t, err)
	}
	const kazoos = "/app/jobs/held/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f__lock__0000000007"
	create(t, client(t, g.servers), zk.FlagEphemeral, kazoos)

	p, url := g.serves("exporter --interval 100ms --max-locks 2 /app")
	page := shows(t, url,
		`zkgrant_queue_held{kind="mutex",lock="/app/jobs/held"} 1`,
		`zkgrant_queue_waiting{kind="mutex",lock="/app/jobs/held"} 1`,
		`zkgrant_queue_held{kind="semaphore",lock="/app/limits/three"} 2`,
		`zkgrant_queue_held{kind="mutex",lock="/app/tasks/*"} 3`,
		`zkgrant_queue_poll_errors_total 0`,
		`zkgrant_session_state{state="connected"} 1`)
	prints(t, page, "elsewhere", false)    // not below the root
	prints(t, page, "/app/tasks/1", false) // three tasks have one label
	for _, of := range []string{`href="metrics"`, "/app"} {
		prints(t, fetch(t, "GET", url, "").body, of, true)
	}
	held[0].Release()
	eventstest.Receive(t, held[0].Done(), "the release")
	shows(t, url, `zkgrant_queue_held{kind="mutex",lock="/app/jobs/held"} 1`,
		`zkgrant_queue_waiting{kind="mutex",lock="/app/jobs/held"} 0`)
	g.stop(p, syscall.SIGTERM, 0)
}

// The exporter prints its address, also as JSON, and by default serves only this machine.
func TestExporterSaysWhereItServes(t *testing.T) {
	g := double(parallel(t))
	p, url := g.serves("exporter --json /")
	var line struct{ Event, URL string }
	err := json.Unmarshal([]byte(p.String()), &line)
	eventstest.Expect(t, err == nil && line.Event == "serving" && line.URL == url+"metrics",
		"it says %s (%v), want serving with the url %smetrics, and no warning", p, err, url)
	other := fetch(t, "GET", url+"metrics", "", "Host", "evil.example:80")
	other.must(t, "for another host", http.StatusMisdirectedRequest)
	g.until("every client that can reach this address sees the locks", "exporter --listen 0.0.0.0:0 /")
}

// In an outage, the exporter answers each scrape at once. After some seconds it reports
// errors and no locks. It still ends when asked to.
func TestExporterInAnOutage(t *testing.T) {
	g := double(parallel(t))
	eventstest.Must(t, g.Create("/locks/a/lock-0000000000", nil))
	p, url := g.serves("exporter --session-timeout 4s --interval 1ms --poll-timeout 100ms /")
	const held = `zkgrant_queue_held{kind="unknown",lock="/locks/a"} 1`
	const connected = `zkgrant_session_state{state="connected"} 1`
	shows(t, url, held)
	g.Down(true)
	shows(t, url, `zkgrant_session_state{state="suspended"} 1`)
	eventstest.Eventually(t, "without a server there are errors and no locks", func() bool {
		page := shows(t, url)
		return !strings.Contains(page, "queue_held{") && !strings.Contains(page, "errors_total 0\n")
	})
	g.Down(false)
	shows(t, url, held, connected)
	g.stop(p, os.Interrupt, 0)
	left := g.Sessions()
	eventstest.Expect(t, len(left) == 0, "after its end there are the sessions %v, want none", left)
}

// forest returns a server with a lock, n directories without one, and another lock, in
// this order.
func forest(t *testing.T, n int) *rig {
	t.Helper()
	g := double(t)
	for _, at := range []string{"/app/a/lock-0000000000", "/app/z/lock-0000000000", "/other/lock-0000000000", "/empty"} {
		eventstest.Must(t, g.Create(at, nil))
	}
	for i := range n {
		eventstest.Must(t, g.Create(fmt.Sprintf("/app/bare/%05d", i), nil))
	}
	return g
}

// reads returns how many listings and reads the server has seen.
func (g *rig) reads() int { return g.Requests(zktest.OpGetChildren2) + g.Requests(zktest.OpGetData) }

// A walk needs a root, unless the servers have a chroot. A missing path is reported as
// such, unlike a path without locks.
func TestAWalkNeedsARoot(t *testing.T) {
	g := forest(parallel(t), 0)
	view := g.terminal("zkgrant top")
	view.shows("give the path to search below")
	view.exits(codeFailed)
	n := g.reads()
	eventstest.Expect(t, n == 0, "a command without a root has read %d times, want never", n)
	app := on(t, g.servers+"/app")
	for line, want := range map[string]string{
		"ls /": "/app/a /app/z /other", "ls": "/a /z", "ls /z": "/z", "ls /empty": "",
	} {
		in := app
		if line == "ls /" || line == "ls /empty" {
			in = g
		}
		p := in.ends(0, line)
		var paths []string
		for line := range strings.Lines(p.String()) {
			paths = append(paths, strings.Fields(line)[0])
		}
		if got := strings.Join(paths[1:], " "); got != want || want == "" && p.String() != "no locks\n" {
			t.Errorf("%s lists %s, want %s", line, p, want)
		}
	}
	view = app.terminal("zkgrant top")
	view.shows("/a", "/z", "2 locks")
	view.types("q")
	view.exits(0)
	_, url := app.serves("exporter")
	shows(t, url, `zkgrant_queue_held{kind="unknown",lock="/a"} 1`)
	app.ends(codeBad, "doctor --json", `"check":"persistent","subject":"/a"`)
}

// A walk prints as it goes, at the given rate, and shows its progress on a terminal.
func TestAWalkPrintsAsItGoes(t *testing.T) {
	const nodes, rate = 150, 100
	g := forest(parallel(t), nodes)
	for command, code := range map[string]int{"ls": 0, "doctor": codeBad} {
		line := fmt.Sprintf("%s --rate %d /app", command, rate)
		before, begun := g.reads(), time.Now()
		printed := make(chan struct{})
		g.Intercept(func(r zktest.Request) zktest.Action {
			if r.Path == fmt.Sprintf("/app/bare/%05d", nodes-1) { // the walk is still going on when the first lock is printed
				select {
				case <-printed:
				case <-t.Context().Done():
				}
			}
			return zktest.Pass()
		})
		p := g.until("/app/a ", line)
		close(printed)
		p.Await(t, "/app/z ", 1)
		p.Exits(code)
		n, took := g.reads()-before, time.Since(begun)
		if most := int(took.Seconds()*rate) + rate/10; n > most || n < nodes {
			t.Errorf("%s has read %d times within %v, want all of the tree, and at most %d", command, n, took, most)
		}
		eventstest.Expect(t, p.Count("nodes") == 0 || command != "ls",
			"without a terminal ls says\n%s\nwant no progress", p)
		view := g.terminal("zkgrant " + line)
		eventstest.Eventually(t, "it says how many nodes it has looked at", func() bool {
			return regexp.MustCompile("nodes read|nodes so far").MatchString(view.printed.String())
		})
		view.exits(code) // before the reads of the next command are counted
	}
}

// Nobody reads the output, and the pipe is full. An interrupted command ends anyway, with
// the signal's code, since its output is not complete.
func TestInterruptedWhileNobodyReads(t *testing.T) {
	g := double(parallel(t))
	held := g.coordinator().Mutex(lockPath).Acquire(t.Context(), coordinator.Data(bytes.Repeat([]byte{1}, 100<<10)))
	t.Cleanup(held.Release)
	eventstest.Receive(t, held.Granted(), "the lock")
	inParallel(t, map[string]syscall.Signal{
		"watch": syscall.SIGTERM, "elect --watch": syscall.SIGINT, "ls": syscall.SIGQUIT, "queue": syscall.SIGTERM,
	}, func(t *testing.T, name string, sig syscall.Signal) {
		in, out := pipe(t)
		defer func() { eventstest.Check(t, in.Close()) }()
		p := eventstest.Begin(t, on(t, g.servers).onFile("1", out, "zkgrant "+name+" --json "+lockPath))
		eventstest.Must(t, in.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := in.Read(make([]byte, 1)) // the rest of the line does not fit into the pipe
		eventstest.Must(t, err)
		p.Send(sig)
		p.Exits(codeSignal + int(sig))
	})
}

// queue looks at one path, and reads nothing below it.
func TestAQueueReadsNothingBelow(t *testing.T) {
	g := forest(parallel(t), 300)
	for path, want := range map[string]string{"/app": "no holders, no waiters", "/app/a": "holds"} {
		before := g.reads()
		g.ends(0, "queue "+path, want)
		n := g.reads() - before
		eventstest.Expect(t, n <= 2, "queue %s has read %d times, want twice at most", path, n)
	}
}

// A path is offered to a shell only if the shell takes it literally: any client that may
// create nodes chooses their names, and bash evaluates what it has completed.
func TestNoPathIsOfferedThatAShellWouldRun(t *testing.T) {
	g := double(parallel(t))
	for _, name := range []string{
		"plain-1_ä:a@b%2F", "p`touch${IFS}x`a", "p`touch${IFS}x`b", "p$(x)", "p${x}", "p;x", "p|x", "p>x", "p&x", "p x", "p'x", `p"x`, `p\x`, "p*", "p!x",
		"p~x", "p{x,y}", "p#x",
	} {
		eventstest.Must(t, g.Create("/locks/"+name+"/lock-0000000000", nil))
	}
	const line = "__complete queue /locks/p"
	matches(t, line, g.ends(0, line), `^/locks/plain-1_ä:a@b%2F\n:4\n`)
}
