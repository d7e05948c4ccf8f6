package browser_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures in docs anew")

var views = map[string]browser.View{
	"light":          {Width: 1280, Height: 800},
	"dark":           {Width: 1280, Height: 800, Dark: true},
	"a phone":        {Width: 360, Height: 740, Phone: true},
	"a phone's dark": {Width: 360, Height: 740, Phone: true, Dark: true, Still: true},
}

// town is a scene with locks of every kind. It calls pause between two events.
func (s *scene) town(pause func()) {
	s.t.Helper()
	queue := func(lock coordinator.Handle, names ...string) (all []*coordinator.Acquisition) {
		for _, name := range names {
			all = append(all, s.queue(lock, name)...)
			pause()
		}
		return all
	}
	if s.length(s.other.Mutex("/locks/imports/nightly")) == 0 {
		queue(s.other.Mutex("/locks/imports/nightly"), "importer on db-2")
	}
	rw := s.other.ReadWrite("/locks/search/index")
	queue(rw.Read(), "search-1", "search-2")
	queue(rw.Write(), "reindex job")
	queue(rw.Read(), "search-3")
	queue(s.other.Semaphore("/locks/limits/exports", 3), "export 8112", "export 8113", "export 8114", "export 8115", "export 8116")
	queue(s.c.Mutex("/locks/scheduler"), "app-1:8080")
	queue(s.other.Mutex("/locks/scheduler"), "app-2:8080", "app-3:8080")
	var renderers []string
	for i := range 22 {
		renderers = append(renderers, fmt.Sprintf("render-%02d", i+1))
	}
	s.queue(s.other.Mutex("/locks/thumbnails"), renderers...)
	pause()
	queue(s.other.Unfair("/locks/deploy/eu-west"), "release 4.2.0")
}

// happenings causes events for the timeline.
func (s *scene) happenings(pause func()) {
	s.t.Helper()
	invoices := s.queue(s.other.Mutex("/locks/billing/invoices"), "billing-7f9c", "billing-2b11", "billing-9d0e")
	pause()
	invoices[0].Release()
	pause()
	own := s.queue(s.c.Mutex("/locks/billing/refunds"), "app-1:8080")
	eventstest.Receive(s.t, own[0].Granted(), "the Grant")
	pause()
	own[0].Release()
	pause()
}

// flaws is a script that lists what makes the page hard to use: text with too little
// contrast, controls without names, and elements wider than the screen.
const flaws = `(() => {
	const found = [];
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const mix = (over, under) => under.map((u, i) => u + (over[i] - u) * over[3]);
	const rgba = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return [r, g, b, a / 255];
	};
	const light = (c) => {
		const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const back = (e) => {
		const layers = [];
		for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
		return layers.reverse().reduce((under, over) => mix(over, under), [255, 255, 255]);
	};
	const contrast = (e, colour) => {
		const under = back(e), [a, b] = [light(mix(rgba(colour), under)), light(under)].sort((x, y) => y - x);
		return (a + 0.05) / (b + 0.05);
	};
	let texts = 0;
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || e.closest("noscript, .hidden, option")) continue;
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (own || e.matches("input, select")) {
			texts++;
			for (const colour of [getComputedStyle(e).color, ...(e.placeholder ? [getComputedStyle(e, "::placeholder").color] : [])]) {
				const c = contrast(e, colour);
				if (c < 4.5) found.push("contrast " + c.toFixed(2) + ": " + e.outerHTML.slice(0, 100));
			}
		}
		const box = e.getBoundingClientRect();
		if (box.width && (box.right > innerWidth + 1 || box.left < -1) && !e.closest(".skip, .scroll")) found.push("outside the screen: " + e.outerHTML.slice(0, 100));
		if (e.matches("button, input, select, a[href], summary")) {
			const name = e.getAttribute("aria-label") || e.textContent.trim() || [...(e.labels ?? [])].map((l) => l.textContent.trim()).join("");
			if (!name) found.push("no name: " + e.outerHTML.slice(0, 100));
		}
		if (e.tagName === "IMG" && !e.hasAttribute("alt")) found.push("no alt: " + e.outerHTML.slice(0, 100));
	}
	if (texts < 30) found.push("only " + texts + " texts were looked at");
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page is " + document.documentElement.scrollWidth + " wide, the screen " + innerWidth);
	if (document.documentElement.lang !== "en") found.push("no language");
	if (!document.title) found.push("no title");
	for (const [selector, n] of [["h1", 1], ["main", 1], ["header", 1], ["aside", 1], ["[role=search]", 1], ["[role=status]", 1]]) {
		if (document.querySelectorAll(selector).length !== n) found.push("not exactly " + n + " " + selector);
	}
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	if (new Set(ids).size < ids.length) found.push("an id is there twice");
	return found;
})()`

func TestBoardIsEasyToReadInEveryView(t *testing.T) {
	s := start(t)
	p := browser.Open(t, s.url, views["light"])
	s.town(func() {})
	// The timeline only has changes since the page was opened. Without this wait it may
	// be nearly empty.
	p.Until("the town is shown", `document.querySelectorAll(".lock").length === 6`)
	s.happenings(func() {})
	p.Until("all is shown", `document.querySelectorAll(".lock").length === 7 && document.querySelectorAll("#timeline li").length > 3`)
	for name, view := range views {
		p.Look(view)
		p.Eval(`document.getAnimations().filter((a) => a.effect.getTiming().iterations === 1).forEach((a) => a.finish()), 0`, nil)
		for _, opened := range []string{"", "#detail", "#keys"} {
			switch opened {
			case "#detail":
				p.Click(".name")
				p.Until("the dialog is filled", `document.querySelector("#contenders tr")`)
			case "#keys":
				p.Eval(`document.querySelector("#keys").showModal(), 0`, nil)
			}
			found := browser.Value[[]string](p, flaws)
			eventstest.Expect(t, len(found) == 0, "%s, dialog %q: %q", name, opened, found)
			p.Eval(`document.querySelectorAll("dialog").forEach((d) => d.close()), 0`, nil)
		}
	}
	var back [2]string
	for i, view := range []browser.View{{Width: 1280, Height: 800}, {Width: 1280, Height: 800, Dark: true}} {
		p.Look(view)
		p.Eval(`getComputedStyle(document.body).backgroundColor`, &back[i])
	}
	eventstest.Expect(t, back[0] != back[1], "light and dark are both %s", back[0])
	p.Look(browser.View{Width: 1280, Height: 800, Still: true})
	moving := browser.Value[int](p, `document.getAnimations().length`)
	eventstest.Expect(t, moving == 0, "%d things move although the user prefers reduced motion", moving)
	behaves(t, p, s.url)
}

func TestBoardIsAtTheTopOfEveryScreen(t *testing.T) {
	s := start(t)
	s.queue(s.other.Mutex("/locks/a"), "ann", "bob")
	p := browser.Open(t, s.url, views["light"])
	p.Until("the lock is shown", shows("/locks/a", "ann", "bob"))
	for _, view := range []browser.View{views["light"], {Width: 1000, Height: 700}, {Width: 400, Height: 800}, {Width: 1000, Height: 2000}} {
		p.Look(view)
		// The space in the header above and below its content. Its padding has 30.
		room := browser.Value[float64](p, `(() => {
			const header = document.querySelector("header"), tall = (e) => e.getBoundingClientRect().height;
			return tall(header) - Math.max(...[...header.children].map(tall));
		})()`)
		eventstest.Expect(t, room <= 40,
			"%d × %d: the header has %.0f px of room, want 40 at most", view.Width, view.Height, room)
	}
	behaves(t, p, s.url)
}

// TestThePictureOfTheBoard writes the picture in docs with -rewrite. The scene takes a
// while, so that the times on it differ.
func TestThePictureOfTheBoard(t *testing.T) {
	if !*rewrite {
		t.Skip("writes the picture with -rewrite")
	}
	s := start(t)
	const pausing = 1700 * time.Millisecond
	pause := func() { <-time.After(pausing) }
	s.queue(s.other.Mutex("/locks/imports/nightly"), "importer on db-2") // before the page is open
	<-time.After(2 * pausing)
	p := browser.Open(t, s.url, browser.View{Width: 1280, Height: 800})
	p.Until("the board is live", `document.querySelector("#status").dataset.state === "connected"`)
	s.town(pause)
	s.happenings(pause)
	<-time.After(5 * time.Second)
	eventstest.Must(t, os.WriteFile("../../docs/board.png", p.Screenshot(), 0o600))
	behaves(t, p, s.url)
}
