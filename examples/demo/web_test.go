package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// ask sends one request to the page of a stage without contenders. The host in target
// becomes the request's Host.
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
		rw := ask(t, http.MethodGet, "http://localhost:8080"+path)
		eventstest.Expect(t, rw.Code == http.StatusOK && strings.Contains(rw.Body.String(), want),
			"GET %s: %d, want 200 and %q", path, rw.Code, want)
		if got := rw.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
			t.Errorf("GET %s has the policy %q, want nothing allowed by default", path, got)
		}
	}
}

func TestAnotherSiteCannotPressButtons(t *testing.T) {
	const here = "http://127.0.0.1:8080"
	for _, test := range []struct {
		name, method, target string
		header               []string
		want                 int
	}{
		{"the page's own button, without a play", http.MethodPost, here, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusConflict},
		{"the page's own button, in an old browser", http.MethodPost, here, []string{"Origin", here}, http.StatusConflict},
		{"another site's button", http.MethodPost, here, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"another site's button, in an old browser", http.MethodPost, here, []string{"Origin", "http://example.com"}, http.StatusForbidden},
		{
			"a button of a name that leads here", http.MethodPost, "http://example.com:8080",
			[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com:8080"}, http.StatusMisdirectedRequest,
		},
		{"a look from a name that leads here", http.MethodGet, "http://localhost.example.com", nil, http.StatusMisdirectedRequest},
		{"another address", http.MethodPost, "http://192.0.2.1", nil, http.StatusMisdirectedRequest},
		{"the name of this machine", http.MethodPost, "http://localhost", nil, http.StatusConflict},
		{"the other loopback address", http.MethodPost, "http://[::1]", nil, http.StatusConflict},
	} {
		path := "/do?what=cut&who=ann"
		if test.method == http.MethodGet {
			path = "/events"
		}
		rw := ask(t, test.method, test.target+path, test.header...)
		eventstest.Equal(t, rw.Code, test.want, "%s", test.name)
	}
}

// unread is the connection of a browser that does not read. A write to it fails at its
// deadline.
type unread struct {
	*httptest.ResponseRecorder

	deadline <-chan time.Time
}

func (u *unread) SetWriteDeadline(at time.Time) error {
	u.deadline = time.After(time.Until(at))
	return nil
}

func (u *unread) FlushError() error { <-u.deadline; return os.ErrDeadlineExceeded }

func TestTheStreamLeavesAPageThatDoesNotRead(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStage(&servers{zk: &program.ZooKeeper{}}, []string{"ann"})
		began := time.Now()
		s.stream(&unread{ResponseRecorder: httptest.NewRecorder()},
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the stream has waited %v for a page that does not read, want less than a minute", took)
		}
	})
}

func TestTheStreamHasThePictureWithEachChange(t *testing.T) {
	s := newStage(&servers{zk: &program.ZooKeeper{}}, []string{"ann"})
	server := httptest.NewServer(handler(s))
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/events")
	eventstest.Must(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() (p picture) {
		t.Helper()
		text, ok := "", false
		for !ok && lines.Scan() {
			text, ok = strings.CutPrefix(lines.Text(), "data: ")
		}
		eventstest.Must(t, json.Unmarshal([]byte(text), &p)) // an error if the stream has ended
		return p
	}
	p := next()
	eventstest.Expect(t, len(p.Marks) == 0 && p.Sides[1].Lanes[0].Who == "ann",
		"at first: %+v, want ann and no marks", p)
	s.log.mark("ann", doCut)
	eventstest.Equal(t, len(next().Marks), 1, "the marks after one was made")
}
