package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// ask sends one request to the page of a stage on which nobody plays.
func ask(t *testing.T, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	s := newStage(&servers{zk: &program.ZooKeeper{Servers: "host:1"}, Cannot: "no"}, []string{"ann"})
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rw := httptest.NewRecorder()
	handler(s).ServeHTTP(rw, r)
	return rw
}

func TestThePageIsWholeAndLocked(t *testing.T) {
	for path, want := range map[string]string{"/": "Who holds the lock?", "/demo.js": "EventSource", "/demo.css": "prefers-color-scheme: dark", "/about": `"cannot":"no"`} {
		rw := ask(t, http.MethodGet, path)
		if rw.Code != http.StatusOK || !strings.Contains(rw.Body.String(), want) {
			t.Errorf("GET %s: %d, want 200 and %q", path, rw.Code, want)
		}
		if got := rw.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
			t.Errorf("GET %s has the policy %q, want nothing allowed by default", path, got)
		}
	}
}

func TestAnotherSiteCannotPressButtons(t *testing.T) {
	if rw := ask(t, http.MethodPost, "/do?what=cut&who=ann", "Sec-Fetch-Site", "cross-site"); rw.Code != http.StatusForbidden {
		t.Errorf("a button pressed by another site: %d, want %d", rw.Code, http.StatusForbidden)
	}
	if rw := ask(t, http.MethodPost, "/do?what=cut&who=ann", "Sec-Fetch-Site", "same-origin"); rw.Code != http.StatusConflict {
		t.Errorf("a button pressed while nobody plays: %d, want %d", rw.Code, http.StatusConflict)
	}
}

func TestTheStreamHasThePictureWithEachChange(t *testing.T) {
	s := newStage(&servers{zk: &program.ZooKeeper{}}, []string{"ann"})
	server := httptest.NewServer(handler(s))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() (p picture) {
		t.Helper()
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatal(err)
				}
				return p
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return p
	}
	if p := next(); len(p.Marks) != 0 || p.Sides[1].Lanes[0].Who != "ann" {
		t.Errorf("at first: %+v, want ann and no marks", p)
	}
	s.log.mark("ann", doCut)
	if p := next(); len(p.Marks) != 1 {
		t.Errorf("after a mark: %+v, want it", p.Marks)
	}
	cancel()
}

func TestThePageIsOnLoopbackOnly(t *testing.T) {
	if listener, err := listenOnLoopback("0.0.0.0:0"); err == nil {
		t.Errorf("listens on %v, want a refusal", listener.Addr())
	} else if errors.As(err, new(*net.OpError)) {
		t.Errorf("%v, want a refusal", err)
	}
	listener, err := listenOnLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}
