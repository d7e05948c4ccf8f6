package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is a service without a listener.
type member struct {
	*service
	c    *coordinator.Coordinator
	stop func()
}

// join starts a member, in a bubble.
func join(t *testing.T, server *zktest.Server, name string) *member {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), server.Addr(), server.Option(), coordinator.WithSessionTimeout(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &member{service: &service{address: name, election: c.Election(leaderPath), order: order}, c: c}
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	m.stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v, want %v", name, err, context.Canceled)
		}
		if err := c.Close(); err != nil {
			t.Errorf("closing %s: %v", name, err)
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
	return m
}

// ask sends the member a request, given as method and path.
func (m *member) ask(t *testing.T, request string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

// must checks a response: its status, the leader that it names, and a part of its body.
func must(t *testing.T, w *httptest.ResponseRecorder, status int, leader, text string) {
	t.Helper()
	if w.Code != status || w.Header().Get("Leader") != leader || !strings.Contains(w.Body.String(), text) {
		t.Errorf("%d, leader %q: %s; want %d, leader %q: %s", w.Code, w.Header().Get("Leader"), w.Body, status, leader, text)
	}
}

const ok, not = http.StatusOK, http.StatusServiceUnavailable

func TestOnlyTheLeaderAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ann, bob := join(t, server, "ann:80"), join(t, server, "bob:80")
		must(t, ann.ask(t, "POST /orders"), ok, "", "ann:80 has taken order 1 under token ")
		must(t, bob.ask(t, "POST /orders"), not, "ann:80", "ask the leader: ann:80")
		must(t, bob.ask(t, "GET /healthz"), ok, "", "ok")
		must(t, bob.ask(t, "GET /orders"), http.StatusMethodNotAllowed, "", "")
		ann.stop()
		synctest.Wait()
		must(t, bob.ask(t, "POST /orders"), ok, "", "bob:80 has taken order 1")
		must(t, ann.ask(t, "POST /orders"), not, "", "not known")
		bob.stop()
	})
}

// When the session ends, the request in progress is refused.
func TestLossCancelsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ann, bob := join(t, server, "ann:80"), join(t, server, "bob:80")
		ann.order = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- ann.ask(t, "POST /orders") }()
		time.Sleep(time.Minute)
		if err := server.Expire(ann.c.SessionID()); err != nil {
			t.Fatal(err)
		}
		expired := time.Now()
		must(t, <-answer, not, "", "not known") // before there is another session
		if took := time.Since(expired); took > time.Second || ann.orders.Load() != 0 {
			t.Errorf("the request went on for %v, %d orders; want at most a second, and none", took, ann.orders.Load())
		}
		ann.order = order
		time.Sleep(10 * time.Second)
		must(t, ann.ask(t, "POST /orders"), not, "bob:80", "ask the leader")
		bob.stop()
		time.Sleep(time.Second)
		must(t, ann.ask(t, "POST /orders"), ok, "", "ann:80 has taken order 1")
		ann.stop()
	})
}

// A leader that is cut off stops answering before another instance can lead.
func TestALeaderThatIsCutOffStopsAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ann, bob := join(t, server, "ann:80"), join(t, server, "bob:80")
		defer bob.stop()
		defer ann.stop()
		session := ann.c.SessionID()
		server.Mute(session, true)
		for bob.term.Load() == nil {
			if w := ann.ask(t, "POST /orders"); w.Code == ok && bob.term.Load() != nil {
				t.Error("both answered a request, want one leader at a time")
			}
			time.Sleep(10 * time.Millisecond)
		}
		must(t, bob.ask(t, "POST /orders"), ok, "", "bob:80 has taken")
		must(t, ann.ask(t, "POST /orders"), not, "", "not known")
		server.Mute(session, false)
	})
}

// A signal arrives while the leader serves a request. The leader accepts no other
// request, finishes this one while it still leads, and resigns.
func TestARequestUnderWayIsFinished(t *testing.T) {
	server := zktest.Start(t)
	c, err := coordinator.Connect(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, finish, ended, answer := make(chan bool), make(chan bool), make(chan error), make(chan string)
	go func() {
		ended <- run(ctx, server.Addr(), "127.0.0.1:0", "", func(ctx context.Context) error {
			close(begun)
			<-finish
			return context.Cause(ctx)
		})
	}()
	var address string
	for leader := range c.Election(leaderPath).Observe(t.Context()) {
		if address = string(leader.Data); address != "" {
			break
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func() string {
		response, err := client.Post("http://"+address+"/orders", "", http.NoBody)
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		return response.Status
	}
	go func() {
		got := post()
		for got == "503 Service Unavailable" { // its node exists before it knows that it leads
			got = post()
		}
		answer <- got
	}()
	<-begun
	stop()
	for err == nil { // until it has stopped listening
		var conn net.Conn
		if conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
		}
	}
	close(finish)
	if got := <-answer; got != "200 OK" {
		t.Errorf("the request that was under way was answered with %s, want 200 OK", got)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the instance ended with %v, want %v", err, context.Canceled)
	}
	if left := server.Children(leaderPath); len(left) > 0 {
		t.Errorf("left behind: %v, want no node", left)
	}
}
