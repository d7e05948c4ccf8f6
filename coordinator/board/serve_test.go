package board

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ask has a handler answer.
func ask(h http.Handler, method, at, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, at, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestItCanBeMountedBelowAnyPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		mux := http.NewServeMux()
		mux.Handle("/deep/board", http.StripPrefix("/deep/board", b))
		mux.Handle("/deep/board/", http.StripPrefix("/deep/board", b))
		if w := ask(mux, "GET", "/deep/board?x=1", ""); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "./board/" {
			t.Errorf("without the slash: %d to %q, want a redirect to ./board/", w.Code, w.Header().Get("Location"))
		}
		w := ask(mux, "GET", "/deep/board/", "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<!doctype html>") {
			t.Errorf("the page: %d\n%s", w.Code, w.Body)
		}
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"#]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			if strings.Contains(link[1], "/") {
				t.Errorf("the page refers to %s, want a file beside it", link[1])
			}
			if w := ask(mux, "GET", "/deep/board/"+link[1], ""); w.Code != http.StatusOK {
				t.Errorf("%s, to which the page refers: %d", link[1], w.Code)
			}
		}
	})
}

func TestMethodsAndHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		for _, test := range []struct {
			method, at string
			status     int
			allow      string
		}{
			{"GET", "/", 200, ""}, {"HEAD", "/", 200, ""}, {"POST", "/", 405, "GET, HEAD"},
			{"GET", "/app.js", 200, ""}, {"GET", "/style.css", 200, ""}, {"GET", "/icon.svg", 200, ""},
			{"HEAD", "/events", 200, ""}, {"DELETE", "/events", 405, "GET, HEAD"},
			{"GET", "/queues.json", 200, ""}, {"HEAD", "/queues.json", 200, ""}, {"PUT", "/queues.json", 405, "GET, HEAD"},
			{"GET", "/queues.json?lock=7", 404, ""},
			{"GET", "/revoke", 405, "POST"}, {"POST", "/revoke", 403, ""},
			{"GET", "/other", 404, ""}, {"GET", "/page/app.js", 404, ""}, {"GET", "/../board.go", 404, ""}, {"GET", "//app.js", 404, ""},
		} {
			w := ask(b, test.method, test.at, "")
			if w.Code != test.status || w.Header().Get("Allow") != test.allow {
				t.Errorf("%s %s: %d, Allow %q; want %d, %q", test.method, test.at, w.Code, w.Header().Get("Allow"), test.status, test.allow)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; ", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
					t.Errorf("%s %s: %s is %q, want %q", test.method, test.at, name, got, want)
				}
			}
			if test.method == "HEAD" && w.Body.Len() > 0 && test.at != "/" { // net/http drops what is written to HEAD
				t.Errorf("HEAD %s has a body of %d bytes", test.at, w.Body.Len())
			}
		}
		w := ask(b, "GET", "/app.js", "")
		if again := ask(b, "GET", "/app.js", "", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("a file that the browser has: %d, want 304", again.Code)
		}
	})
}

func TestTheJSONHasEveryContender(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		own := acquire(t, c, "/locks/a", "ann")
		grant := <-own.Granted()
		for range 30 {
			acquire(t, connect(t, server), "/locks/a", "\xff<script>"+strings.Repeat("é", 200))
		}
		w := ask(b, "GET", "/queues.json", "")
		var got listing
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%v in %s", err, w.Body)
		}
		if len(got.Locks) != 1 || got.Locks[0].Holders != 1 || got.Locks[0].Waiters != 30 || len(got.Locks[0].Contenders) != 31 {
			t.Fatalf("want one lock with a holder and 30 waiters: %s", w.Body)
		}
		first := got.Locks[0].Contenders[0]
		if first.Data != "ann" || !first.Own || !first.Holding || first.Token != grant.Token || first.Node != grant.Node || first.Kind != "lock" {
			t.Errorf("the holder is %+v, want that of %+v", first, grant)
		}
		if cut := got.Locks[0].Contenders[1]; cut.Bytes != 409 || cut.Data != "\ufffd<script>"+strings.Repeat("é", 123) {
			t.Errorf("data of 409 bytes: %q of %d", cut.Data, cut.Bytes)
		}
		if bytes.Contains(w.Body.Bytes(), []byte("<script>")) {
			t.Error("the JSON has markup in it, want it escaped")
		}
		one := ask(b, "GET", "/queues.json?lock="+got.Locks[0].ID, "")
		if one.Code != http.StatusOK || one.Body.String() != w.Body.String() {
			t.Errorf("the lock by its id: %d %s", one.Code, one.Body)
		}
	})
}

// A page offers no revocation that would be refused.
func TestALockThatCannotBeRevokedIsToldAsSuch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		for path, lock := range map[string]*coordinator.Lock{
			"/locks/firm": c.Mutex("/locks/firm"), "/locks/unfair": c.Unfair("/locks/unfair"), "/locks/soft": c.Mutex("/locks/soft", coordinator.Revocable()),
		} {
			<-lock.Acquire(t.Context(), coordinator.Data([]byte(path))).Granted()
		}
		c.Mutex("/locks/soft").Acquire(t.Context()) // a waiter says nothing of the holder
		<-c.Semaphore("/locks/permits", 2).Acquire(t.Context()).Granted()
		synctest.Wait()
		eventstest.Must(t, server.Create("/locks/foreign/x-lock-0000000000", nil))
		var got listing
		eventstest.Must(t, json.Unmarshal(ask(boardOf(t, c), "GET", "/queues.json", "").Body.Bytes(), &got))
		firm := map[string]bool{}
		for _, lock := range got.Locks {
			firm[lock.Path] = lock.Firm
		}
		want := map[string]bool{"/locks/firm": true, "/locks/unfair": true, "/locks/soft": false, "/locks/permits": true, "/locks/foreign": false}
		if !maps.Equal(firm, want) {
			t.Errorf("not revocable: %v, want %v", firm, want)
		}
	})
}

// The node of a cached lock stays when its holder has released.
func TestANodeThatMayBeIdleIsToldAsSuch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		cached := c.Mutex("/locks/cached", coordinator.Cached())
		for range 2 {
			eventstest.Must(t, cached.Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
		}
		synctest.Wait()
		held := acquire(t, c, "/locks/held", "ann")
		<-held.Granted()
		var got listing
		eventstest.Must(t, json.Unmarshal(ask(boardOf(t, c), "GET", "/queues.json", "").Body.Bytes(), &got))
		idle := map[string]bool{}
		for _, lock := range got.Locks {
			for _, contender := range lock.Contenders {
				idle[lock.Path] = idle[lock.Path] || contender.Idle
			}
		}
		if want := map[string]bool{"/locks/cached": true, "/locks/held": false}; !maps.Equal(idle, want) {
			t.Errorf("may be idle: %v, want %v", idle, want)
		}
	})
}

func TestOnlyTheAuthorisedRevoke(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c, WithRevoke(func(r *http.Request) error {
			if r.Header.Get("Authorization") != "me" {
				return errors.New("you may not")
			}
			return nil
		}))
		holder := acquire(t, connect(t, server), "/locks/a", "ann")
		<-holder.Granted()
		firm := connect(t, server).Mutex("/locks/firm").Acquire(t.Context())
		<-firm.Granted()
		p, mine := visit(b, false), visitAs(b, "/events", "me")
		defer p.leave()
		defer mine.leave()
		time.Sleep(time.Second)
		if p.last().Revoke || !mine.last().Revoke {
			t.Errorf("a stranger's page has the button: %v, and mine: %v; want only mine", p.last().Revoke, mine.last().Revoke)
		}
		id := map[string]string{}
		p.mu.Lock()
		for _, l := range p.locks {
			id[l.Path] = l.ID
		}
		p.mu.Unlock()
		body := func(board, lock, grace string) string {
			return `{"board":"` + board + `","lock":"` + lock + `","grace_seconds":` + grace + `}`
		}
		fine := []string{"Authorization", "me", "Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}
		with := func(header ...string) []string { return append(append([]string(nil), fine...), header...) }
		for name, test := range map[string]struct {
			body   string
			header []string
			status int
			text   string
		}{
			"a stranger":            {body(b.epoch, id["/locks/a"], "5"), with("Authorization", "you"), 403, "you may not"},
			"another site":          {body(b.epoch, id["/locks/a"], "5"), with("Sec-Fetch-Site", "cross-site"), 403, "cross-origin"},
			"an old browser's":      {body(b.epoch, id["/locks/a"], "5"), with("Sec-Fetch-Site", "", "Origin", "https://evil.example"), 403, "cross-origin"},
			"a form":                {body(b.epoch, id["/locks/a"], "5"), with("Content-Type", "text/plain"), 415, "application/json"},
			"no JSON":               {"lock=1", fine, 400, "want board"},
			"another charset":       {body("other", "1", "5"), with("Content-Type", "application/json; charset=utf-8"), 404, "gone"},
			"two requests in one":   {body(b.epoch, id["/locks/a"], "5") + "{}", fine, 400, "after the JSON object"},
			"too much":              {`{"lock":"` + strings.Repeat("1", 5000) + `"}`, fine, 400, "want board"},
			"negative grace":        {body(b.epoch, id["/locks/a"], "-1"), fine, 400, "grace"},
			"much grace":            {body(b.epoch, id["/locks/a"], "3601"), fine, 400, "grace"},
			"an unknown lock":       {body(b.epoch, "77", "5"), fine, 404, "gone"},
			"another board's lock":  {body("other", id["/locks/a"], "5"), fine, 404, "gone"},
			"a holder that is firm": {body(b.epoch, id["/locks/firm"], "5"), fine, 409, "a holder is not revocable: _c_"},
		} {
			w := ask(b, "POST", "/revoke", test.body, test.header...)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.text) {
				t.Errorf("%s: %d %s; want %d %s", name, w.Code, w.Body, test.status, test.text)
			}
		}
		select {
		case <-holder.Lost():
			t.Fatal("the lock was taken away by a request that was refused")
		default:
		}
		began := time.Now()
		if w := ask(b, "POST", "/revoke", body(b.epoch, id["/locks/a"], "5"), fine...); w.Code != http.StatusNoContent {
			t.Errorf("an authorised request: %d %s, want 204", w.Code, w.Body)
		}
		if lost := <-holder.Lost(); time.Since(began) < 5*time.Second || !errors.Is(lost.Err, coordinator.ErrRevoked) {
			t.Errorf("the holder lost it after %v by %v, want 5 s and ErrRevoked", time.Since(began), lost.Err)
		}
		time.Sleep(time.Second)
		if got := p.timeline(); got != "refused, asked, left ann" {
			t.Errorf("timeline %q, want that one was refused, the other requested, and left", got)
		}
		firm.Release()
	})
}
