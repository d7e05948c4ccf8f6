package browser_test

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
)

func TestMain(m *testing.M) { browser.Main(m) }

// serve serves one page.
func serve(t *testing.T, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><link rel=icon href=data:,>%s", body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

func TestRequestsAndErrorsAreListed(t *testing.T) {
	at := serve(t, `<img src=missing.png><script>fetch("other"); console.error("my", {}); throw new Error("thrown")</script>`)
	p := browser.Open(t, at, browser.View{})
	p.Until("all is loaded", "performance.getEntriesByType('resource').length >= 2")
	for _, want := range []string{at, at + "missing.png", at + "other"} {
		if got := p.Requests(); !slices.Contains(got, want) {
			t.Errorf("requests %q, want %s among them", got, want)
		}
	}
	all := strings.Join(p.Errors(), "\n")
	for _, want := range []string{"thrown", `"my" Object`, "404", "missing.png"} {
		if !strings.Contains(all, want) {
			t.Errorf("errors:\n%s\nwant %q among them", all, want)
		}
	}
}

func TestAViewIsWhatThePageSees(t *testing.T) {
	at := serve(t, `<meta name=viewport content="width=device-width">`)
	seen := func(p *browser.Page) (got string) {
		p.Eval(`[innerWidth, innerHeight, matchMedia("(prefers-color-scheme: dark)").matches,
			matchMedia("(prefers-reduced-motion: reduce)").matches, devicePixelRatio].join()`, &got)
		return got
	}
	p := browser.Open(t, at, browser.View{})
	if got := seen(p); got != "1280,800,false,false,1" {
		t.Errorf("the default view: %s", got)
	}
	p.Look(browser.View{Width: 390, Height: 844, Dark: true, Still: true, Phone: true})
	if got := seen(p); got != "390,844,true,true,3" {
		t.Errorf("a phone in the dark: %s", got)
	}
	picture, err := png.Decode(bytes.NewReader(p.Screenshot()))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 3*390 || size.Y != 3*844 {
		t.Errorf("the picture is %v, want 1170 × 2532", size)
	}
}
