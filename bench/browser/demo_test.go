package browser_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// beginDemo builds and starts examples/demo, and returns the URL of its page.
func beginDemo(t *testing.T, args ...string) (url string, p *eventstest.Process) {
	t.Helper()
	// The go command runs a test again if a file has changed that the test itself has read.
	for _, pattern := range []string{"*.go", "page/*"} {
		sources, err := filepath.Glob("../../examples/demo/" + pattern)
		if err != nil || len(sources) == 0 {
			t.Fatalf("no sources of the demo: %v", err)
		}
		for _, source := range sources {
			if _, err := os.Stat(source); err != nil {
				t.Fatal(err)
			}
		}
	}
	program := filepath.Join(t.TempDir(), "demo")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/zkgrant/zkgrant/examples/demo").CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, said)
	}
	p = eventstest.Begin(t, exec.Command(program, args...))
	p.Await(t, "Ctrl-C ends it", 1)
	return regexp.MustCompile(`http://\S+`).FindString(p.String()), p
}

// TestTheDemoShowsTwoHoldersOfTheNaiveLockOnly presses its buttons with the keyboard. With -rewrite it takes the picture of the README.
func TestTheDemoShowsTwoHoldersOfTheNaiveLockOnly(t *testing.T) {
	t.Parallel() // it waits for lost sessions most of the time
	url, program := beginDemo(t)
	p := browser.Open(t, url, browser.View{Width: 1280, Height: 766, Still: true})
	p.Until("ann holds both locks", `document.querySelector("#status").textContent === "Naive lock: ann holds. zkgrant: ann holds."`)
	quiet := func(what, since, seconds string) { // for the picture
		if *rewrite {
			p.Until(what, `now() > `+since+` + `+seconds)
		}
	}
	quiet("ann has held for a while", `0`, `16`)
	focused := func(want string) {
		t.Helper()
		p.Press(kb.Tab)
		var got string
		if p.Eval(`document.activeElement.textContent`, &got); got != want {
			t.Errorf("the tab key goes to %q, want %q", got, want)
		}
	}
	focused("Cut the holder off")
	p.Press(kb.Enter)
	p.Until("the naive lock has two holders", `picture.Sides[0].Times === 1 && picture.Sides[0].Overlaps[0].Open`)
	p.Until("bob holds the other one", `picture.Sides[1].Lanes[1].Bars.at(-1).State === "holds"`)
	quiet("the two have held for a while", `picture.Sides[0].Overlaps[0].From / 1e9`, `6`)
	focused("Heal the network")
	p.Press(kb.Enter)
	p.Until("ann was told, and queues again", `["naive", "zkgrant"].every((key, i) => picture.Sides[i].Lanes[0].Bars.at(-1).State === "waits")`)
	quiet("ann has waited for a while", `picture.Sides[0].Overlaps[0].To / 1e9`, `3`)

	for id, want := range map[string]string{"naive": `^two holders: 1 time, (\d+\.\d s|\d+ ms) in all$`, "zkgrant": `^two holders: 0 times; last told (\d+\.\d s|\d+ ms) before the next grant$`} {
		if got := p.Text("#score-" + id + " .count"); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the score of %s is %q, want %s", id, got, want)
		}
	}
	var margin []float64 // in seconds
	if p.Eval(`picture.Sides[1].Margins.map((m) => (m.Granted - m.Lost) / 1e9)`, &margin); len(margin) != 1 || margin[0] <= 0 {
		t.Errorf("seconds from a loss of zkgrant's to the next grant: %v, want one, above 0", margin)
	}
	if *rewrite {
		p.Look(browser.View{Width: 1280, Height: 766})
		p.Until("it is drawn", `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))`)
		eventstest.Must(t, os.WriteFile("../../docs/demo.png", p.Screenshot(), 0o600))
		t.Logf("%s | %s | told %.1f s before", p.Text("#score-naive .count"), p.Text("#score-zkgrant .count"), margin)
	}
	var sides []string // of the bracket where the label is while it scrolls out of the picture, or how it is cut
	p.Eval(`(() => {
		const left = document.querySelector("#lanes").getBoundingClientRect().left + layout().left, seen = [], t = now();
		for (let later = 0; later < 60; later++) {
			for (const move of moving) move(t + later / 2);
			const label = document.querySelector(".margintext"), at = label.getBoundingClientRect();
			const side = label.getAttribute("display") === "none" ? "none" : at.left < left ? "cut" : label.getAttribute("text-anchor");
			if (side !== seen.at(-1)) seen.push(side);
		}
		frame();
		return seen;
	})()`, &sides)
	if got, want := strings.Join(sides, " "), "end start none"; got != want {
		t.Errorf("the label beside the bracket is at these sides: %s, want %s", got, want)
	}
	p.Look(browser.View{Width: 360, Height: 780, Phone: true, Still: true})
	var fits bool
	if p.Eval(`document.documentElement.scrollWidth <= innerWidth`, &fits); !fits {
		t.Error("a phone has to scroll sideways")
	}
	for _, asked := range p.Requests() {
		if !strings.HasPrefix(asked, url) {
			t.Errorf("the page asks for %s, want nothing but %s", asked, url)
		}
	}
	if errors := p.Errors(); len(errors) > 0 {
		t.Errorf("errors of the page: %q", errors)
	}
	program.Send(syscall.SIGTERM)
	program.Exits(130)
}
