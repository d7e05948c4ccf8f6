package browser_test

import (
	"os"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
)

func TestLook(t *testing.T) {
	s := start(t)
	s.queue(s.other.Mutex("/locks/billing/invoices"), "billing-7f9c on host-3", "billing-2b11 on host-1", "billing-9d0e on host-2")
	rw := s.other.ReadWrite("/locks/search/index")
	s.queue(rw.Read(), "searcher-1", "searcher-2", "searcher-3")
	s.queue(rw.Write(), "reindexer")
	s.queue(s.other.Semaphore("/locks/limits/exports", 3), "export 8112", "export 8113", "export 8114", "export 8115", "export 8116")
	s.queue(s.c.Mutex("/locks/elections/scheduler"), "host-1:8080")
	s.queue(s.other.Mutex("/locks/elections/scheduler"), "host-2:8080", "host-3:8080")
	s.queue(s.other.Mutex("/locks/imports/nightly"), "importer on host-2")
	names := []string{"render-00"}
	for i := 1; i < 30; i++ {
		names = append(names, "render-"+string(rune('0'+i/10))+string(rune('0'+i%10)))
	}
	s.queue(s.other.Mutex("/locks/thumbnails"), names...)
	p := browser.Open(t, s.url, browser.View{})
	p.Until("thumbs", `document.body.innerText.includes("thumbnails")`)
	os.WriteFile("/tmp/light.png", p.Screenshot(), 0o600)
	p.Look(browser.View{Width: 1280, Height: 800, Dark: true})
	os.WriteFile("/tmp/dark.png", p.Screenshot(), 0o600)
	p.Look(browser.View{Width: 390, Height: 844, Phone: true})
	os.WriteFile("/tmp/phone.png", p.Screenshot(), 0o600)
	t.Log(p.Errors(), p.Requests())
}
