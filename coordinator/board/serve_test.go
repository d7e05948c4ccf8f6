package board

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func ask(h http.Handler, method, at, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, at, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// listed returns queues.json, decoded and as text.
func listed(t *testing.T, b *Board) (l listing, text string) {
	t.Helper()
	w := ask(b, "GET", "/queues.json", "")
	eventstest.Must(t, json.Unmarshal(w.Body.Bytes(), &l))
	return l, w.Body.String()
}

func TestItCanBeMountedBelowAnyPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c)
		mux := http.NewServeMux()
		mux.Handle("/deep/board", http.StripPrefix("/deep/board", b))
		mux.Handle("/deep/board/", http.StripPrefix("/deep/board", b))
		to := ask(mux, "GET", "/deep/board?x=1", "")
		eventstest.Equal(t, to.Code, http.StatusTemporaryRedirect, "without the slash")
		eventstest.Equal(t, to.Header().Get("Location"), "./board/", "without the slash it leads to")
		w := ask(mux, "GET", "/deep/board/", "")
		eventstest.Equal(t, w.Code, http.StatusOK, "the page")
		eventstest.Contains(t, w.Body.String(), "<!doctype html>", "the page")
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"#]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			eventstest.Expect(t, !strings.Contains(link[1], "/"), "%s is no file beside the page", link[1])
			file := ask(mux, "GET", "/deep/board/"+link[1], "")
			eventstest.Equal(t, file.Code, http.StatusOK, "%s, to which the page refers", link[1])
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
			eventstest.Equal(t, w.Code, test.status, "%s %s", test.method, test.at)
			eventstest.Equal(t, w.Header().Get("Allow"), test.allow, "Allow of %s %s", test.method, test.at)
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; ", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				got := w.Header().Get(name)
				eventstest.Expect(t, strings.HasPrefix(got, want), "%s %s: %s is %q", test.method, test.at, name, got)
			}
			// net/http drops the body of an answer to HEAD.
			bare := test.method != "HEAD" || w.Body.Len() == 0 || test.at == "/"
			eventstest.Expect(t, bare, "HEAD %s has a body", test.at)
		}
		w := ask(b, "GET", "/app.js", "")
		again := ask(b, "GET", "/app.js", "", "If-None-Match", w.Header().Get("ETag"))
		eventstest.Equal(t, again.Code, http.StatusNotModified, "a file that the browser has")
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
		got, text := listed(t, b)
		if len(got.Locks) != 1 || got.Locks[0].Holders != 1 || got.Locks[0].Waiters != 30 || len(got.Locks[0].Contenders) != 31 {
			t.Fatalf("want one lock with a holder and 30 waiters: %s", text)
		}
		first, cut := got.Locks[0].Contenders[0], got.Locks[0].Contenders[1]
		eventstest.Expect(t, first.Data == "ann" && first.Own && first.Holding && first.Token == grant.Token &&
			first.Node == grant.Node && first.Kind == "lock", "the holder is %+v, want that of %+v", first, grant)
		eventstest.Equal(t, cut.Bytes, 409, "the length of the waiter's data")
		eventstest.Equal(t, cut.Data, "\ufffd<script>"+strings.Repeat("é", 123), "the waiter's data")
		eventstest.Expect(t, !strings.Contains(text, "<script>"), "the JSON has markup in it, want it escaped")
		one := ask(b, "GET", "/queues.json?lock="+got.Locks[0].ID, "")
		eventstest.Equal(t, one.Code, http.StatusOK, "the lock by its id")
		eventstest.Equal(t, one.Body.String(), text, "the lock by its id")
	})
}

// TestOnlyTheLockThatIsShownIsRevoked, not the other one at the same path.
func TestOnlyTheLockThatIsShownIsRevoked(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		b := boardOf(t, c, WithRevoke(func(*http.Request) error { return nil }))
		queue := hold(t, connect(t, server), "/locks/a", "ann")
		semaphore := connect(t, server).Semaphore("/locks/a", 1, coordinator.Revocable()).Acquire(t.Context())
		<-semaphore.Granted()
		got, _ := listed(t, b)
		eventstest.Equal(t, len(got.Locks), 2, "locks at the path")
		w := ask(b, "POST", "/revoke", `{"lock":"semaphore:/locks/a","grace_seconds":0}`, "Content-Type", "application/json")
		eventstest.Equal(t, w.Code, http.StatusNoContent, "the request")
		eventstest.ErrorIs(t, (<-semaphore.Lost()).Err, coordinator.ErrRevoked, "the semaphore's loss")
		eventstest.Expect(t, queue.Valid(), "the queue's holder has lost the lock, too")
	})
}

// A page must not offer a revocation that would be refused.
func TestALockThatCannotBeRevokedIsToldAsSuch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		for path, lock := range map[string]*coordinator.Lock{
			"/locks/firm": c.Mutex("/locks/firm"), "/locks/unfair": c.Unfair("/locks/unfair"), "/locks/soft": c.Mutex("/locks/soft", coordinator.Revocable()),
		} {
			<-lock.Acquire(t.Context(), coordinator.Data([]byte(path))).Granted()
		}
		c.Mutex("/locks/soft").Acquire(t.Context()) // a waiter's option does not count for the holder
		<-c.Semaphore("/locks/permits", 2).Acquire(t.Context()).Granted()
		synctest.Wait()
		eventstest.Must(t, server.Create("/locks/foreign/x-lock-0000000000", nil))
		got, _ := listed(t, boardOf(t, c))
		firm := map[string]bool{}
		for _, lock := range got.Locks {
			firm[lock.Path] = lock.Firm
		}
		eventstest.Equal(t, firm, map[string]bool{
			"/locks/firm": true, "/locks/unfair": true, "/locks/permits": true, "/locks/soft": false,
			"/locks/foreign": false,
		}, "not revocable")
	})
}

// A cached lock's node stays after its holder has released.
func TestANodeThatMayBeIdleIsToldAsSuch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, c *coordinator.Coordinator) {
		cached := c.Mutex("/locks/cached", coordinator.Cached())
		for range 2 {
			eventstest.Must(t, cached.Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
		}
		synctest.Wait()
		hold(t, c, "/locks/held", "ann")
		got, _ := listed(t, boardOf(t, c))
		idle := map[string]bool{}
		for _, lock := range got.Locks {
			for _, contender := range lock.Contenders {
				idle[lock.Path] = idle[lock.Path] || contender.Idle
			}
		}
		eventstest.Equal(t, idle, map[string]bool{"/locks/cached": true, "/locks/held": false}, "may be idle")
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
		holder := hold(t, connect(t, server), "/locks/a", "ann")
		firm := connect(t, server).Mutex("/locks/firm").Acquire(t.Context())
		<-firm.Granted()
		body := func(lock, grace string) string { return `{"lock":"` + lock + `","grace_seconds":` + grace + `}` }
		fine := []string{"Authorization", "me", "Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}
		early := ask(b, "POST", "/revoke", body("/locks/a", "5"), fine...)
		eventstest.Equal(t, early.Code, 503, "a request before anybody has looked")
		eventstest.Contains(t, early.Body.String(), "not found yet", "the same")
		p, mine := visit(t, b, false), visitAs(t, b, "/events", "me", false)
		time.Sleep(time.Second)
		eventstest.Equal(t, p.last().Revoke, false, "a stranger's page has the button")
		eventstest.Equal(t, mine.last().Revoke, true, "my page has the button")
		with := func(header ...string) []string { return slices.Concat(fine, header) }
		for name, test := range map[string]struct {
			body   string
			header []string
			status int
			text   string
		}{
			"a stranger":            {body("/locks/a", "5"), with("Authorization", "you"), 403, "you may not"},
			"another site":          {body("/locks/a", "5"), with("Sec-Fetch-Site", "cross-site"), 403, "cross-origin"},
			"an old browser's":      {body("/locks/a", "5"), with("Sec-Fetch-Site", "", "Origin", "https://evil.example"), 403, "cross-origin"},
			"a form":                {body("/locks/a", "5"), with("Content-Type", "text/plain"), 415, "application/json"},
			"no JSON":               {"lock=1", fine, 400, "want lock"},
			"another charset":       {body("/locks/none", "5"), with("Content-Type", "application/json; charset=utf-8"), 404, "gone"},
			"two requests in one":   {body("/locks/a", "5") + "{}", fine, 400, "after the JSON object"},
			"too much":              {`{"lock":"` + strings.Repeat("1", 70_000) + `"}`, fine, 400, "want lock"},
			"negative grace":        {body("/locks/a", "-1"), fine, 400, "grace"},
			"much grace":            {body("/locks/a", "3601"), fine, 400, "grace"},
			"a null grace":          {body("/locks/a", "null"), fine, 400, "seconds of grace"}, // an empty field
			"no grace":              {`{"lock":"/locks/a"}`, fine, 400, "seconds of grace"},
			"an unknown lock":       {body("77", "5"), fine, 404, "gone"},
			"a holder that is firm": {body("/locks/firm", "5"), fine, 409, "a holder is not revocable: _c_"},
		} {
			w := ask(b, "POST", "/revoke", test.body, test.header...)
			eventstest.Equal(t, w.Code, test.status, "%s", name)
			eventstest.Contains(t, w.Body.String(), test.text, "%s", name)
		}
		eventstest.Equal(t, len(holder.Lost()), 0, "the lock was taken away by a request that was refused")
		began := time.Now()
		w := ask(b, "POST", "/revoke", body("/locks/a", "5"), fine...)
		eventstest.Equal(t, w.Code, http.StatusNoContent, "an authorised request")
		lost := <-holder.Lost()
		eventstest.Expect(t, time.Since(began) >= 5*time.Second, "it was lost after %v", time.Since(began))
		eventstest.ErrorIs(t, lost.Err, coordinator.ErrRevoked, "the holder's loss")
		time.Sleep(time.Second)
		eventstest.Equal(t, p.timeline(), "refused, asked, left ann", "timeline")
		firm.Release()
	})
}
