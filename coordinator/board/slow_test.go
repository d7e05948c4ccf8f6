package board

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAProgramThatDoesNotReadCostsNoLooks(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		b, asked := watchedBoard(t, zktest.Start(t))
		p := visitAs(t, b, "/queues.json", "", true)
		time.Sleep(2 * time.Second)
		n := asked.in(10 * time.Second)
		eventstest.Expect(t, n <= 10, "%d requests while the answer is being written, want the session's own", n)
		ended := time.Now()
		b.Close()
		<-p.ended
		eventstest.Equal(t, time.Since(ended), 0, "the end of the request after the board's")
	})
}

func TestAPageThatOpensShowsALookOfNow(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		ann := acquire(t, c, "/locks/a", "ann")
		b := boardOf(t, c)
		p := visit(t, b, false)
		time.Sleep(time.Second)
		p.end()
		ann.Release()
		for _, away := range []time.Duration{2 * time.Second, time.Hour} {
			time.Sleep(away)
			p, opened := visit(t, b, false), time.Now()
			time.Sleep(time.Second)
			p.end()
			first := p.updates[0]
			age := opened.Sub(time.UnixMilli(first.Seen))
			eventstest.Expect(t, age <= interval && len(first.Locks) == 0,
				"away for %v: the first update is %v old, with %d locks", away, age, len(first.Locks))
		}
		server.Down(true)
		time.Sleep(time.Second)
		p = visit(t, b, false)
		time.Sleep(time.Second)
		eventstest.Expect(t, p.count() != 0 && p.last().State == "suspended",
			"opened without a connection: %d updates in a second, want one that says so", p.count())
		server.Down(false)
		time.Sleep(20 * time.Second)
	})
}

func TestShutdownDoesNotWaitForAProgramThatDoesNotRead(t *testing.T) {
	zk := zktest.Start(t)
	c := connect(t, zk)
	const contenders = 400
	for range contenders {
		c.Mutex("/locks/a").Acquire(t.Context(), coordinator.Data([]byte(strings.Repeat("<", mostData)))) // each < takes six bytes in JSON
	}
	eventstest.Eventually(t, "all are in the queue", func() bool {
		queue, err := c.Mutex("/locks/a").Queue(t.Context())
		return err == nil && len(queue) == contenders
	})
	b := boardOf(t, c)
	server := httptest.NewUnstartedServer(b) // its connections have small buffers
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		eventstest.Check(t, conn.(*net.TCPConn).SetWriteBuffer(4096))
		return ctx
	}
	server.Config.RegisterOnShutdown(b.Close)
	server.Start()
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	eventstest.Must(t, err)
	defer conn.Close()
	eventstest.Check(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	fmt.Fprintf(conn, "GET /queues.json HTTP/1.1\r\nHost: board\r\n\r\n")
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("the answer begins with %q: %v", line, err)
	}
	eventstest.Check(t, server.Config.Shutdown(eventstest.Patiently(t, sending/2))) // Shutdown does not wait
}

type body struct {
	io.ReadCloser

	reads *atomic.Int64
}

func (b body) Read(p []byte) (int, error) {
	b.reads.Add(1)
	return b.ReadCloser.Read(p)
}

func TestARevocationEndsWithItsClientThoughTheBodyEndsLate(t *testing.T) {
	zk := zktest.Start(t)
	c := connect(t, zk)
	held := c.Mutex("/locks/a", coordinator.Revocable()).Acquire(t.Context())
	eventstest.Receive(t, held.Granted(), "the Grant")
	b := boardOf(t, c, WithRevoke(func(*http.Request) error { return nil }))
	eventstest.Equal(t, ask(b, "GET", "/queues.json", "").Code, http.StatusOK, "queues.json")
	ended := make(chan struct{})
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = body{r.Body, &reads}
		b.ServeHTTP(w, r)
		close(ended)
	}))
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	eventstest.Must(t, err)
	text := `{"lock":"/locks/a","grace_seconds":3600}`
	fmt.Fprintf(conn, "POST /revoke HTTP/1.1\r\nHost: board\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
	asked := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.state.moments) > 0 && b.state.moments[len(b.state.moments)-1].What == "asked"
	}
	eventstest.Eventually(t,
		"the end of the body is waited for", func() bool { return reads.Load() > 1 || asked() })
	eventstest.Expect(t, !asked(), "the lock was asked back before the end of the body")
	fmt.Fprint(conn, "0\r\n\r\n")
	eventstest.Eventually(t, "it is asked back", asked)
	_ = conn.Close()
	eventstest.Receive(t, ended, "the end of the request")
}

// firstAnswer returns how long the first request to a server without timeouts takes.
func firstAnswer(t *testing.T, b *Board, http2 bool) time.Duration {
	t.Helper()
	server := httptest.NewUnstartedServer(b)
	server.EnableHTTP2 = http2
	server.StartTLS()
	defer server.Close()
	began := time.Now()
	answer, err := server.Client().Get(server.URL)
	eventstest.Must(t, err)
	eventstest.Check(t, answer.Body.Close())
	return time.Since(began)
}

// TestTheTimeoutsOfAServerEndNoPage, and no revocation, whose grace is longer.
func TestTheTimeoutsOfAServerEndNoPage(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2], func(t *testing.T) {
			zk := zktest.Start(t)
			c := connect(t, zk)
			b := boardOf(t, c, WithRevoke(func(*http.Request) error { return nil }))
			server := httptest.NewUnstartedServer(b)
			server.EnableHTTP2 = http2
			timeout := max(300*time.Millisecond, 20*firstAnswer(t, b, http2)) // for the TLS handshake, too
			server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
			server.StartTLS()
			defer server.Close()
			page, err := server.Client().Get(server.URL + "/events")
			eventstest.Must(t, err)
			defer page.Body.Close()
			updates, opened := bufio.NewScanner(page.Body), time.Now()
			shows := func(what string) {
				t.Helper()
				for updates.Scan() {
					if strings.Contains(updates.Text(), what) {
						return
					}
				}
				t.Fatalf("the page ends with %v after %v, before it shows %s", updates.Err(), time.Since(opened), what)
			}
			hold := func() *coordinator.Acquisition {
				held := c.Mutex("/locks/a", coordinator.Revocable()).Acquire(t.Context())
				eventstest.Receive(t, held.Granted(), "the Grant")
				shows(`"id":"/locks/a"`)
				return held
			}
			for time.Since(opened) < 2*timeout {
				hold().Release()
				shows(`"gone":["/locks/a"]`)
			}
			hold()
			body := fmt.Sprintf(`{"lock":"/locks/a","grace_seconds":%v}`, (2 * timeout).Seconds())
			answer, err := server.Client().Post(server.URL+"/revoke", "application/json",
				strings.NewReader(body))
			eventstest.Must(t, err)
			eventstest.Equal(t, answer.StatusCode, http.StatusNoContent, "the revocation")
			eventstest.Check(t, answer.Body.Close())
		})
	}
}
