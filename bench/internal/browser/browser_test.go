package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { browser.Main(m) }

func TestRequestsAndErrorsAreListed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><img src=missing.png>",
			`<script>fetch("other"); console.error("my", {}); throw new Error("thrown")</script>`)
	}))
	t.Cleanup(server.Close)
	at := server.URL + "/"
	p := browser.Open(t, at, browser.View{})
	p.Until("all is loaded", "performance.getEntriesByType('resource').length >= 2")
	for _, want := range []string{at, at + "missing.png", at + "other"} {
		got := p.Requests()
		eventstest.Expect(t, slices.Contains(got, want), "requests %q, want %s among them", got, want)
	}
	all := strings.Join(p.Errors(), "\n")
	for _, want := range []string{"thrown", `"my" Object`, "404", "missing.png"} {
		eventstest.Contains(t, all, want, "errors")
	}
}
