package browser_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	// The go command caches a test's result until a file changes that the test has
	// accessed, so access the sources.
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

// TestTheDemoShowsTwoHoldersOfTheNaiveLockOnly presses the buttons with the keyboard.
// With -rewrite it takes the README's picture.
func TestTheDemoShowsTwoHoldersOfTheNaiveLockOnly(t *testing.T) {
	t.Parallel() // it waits for lost sessions most of the time
	url, program := beginDemo(t)
	p := browser.Open(t, url, browser.View{Width: 1280, Height: 914, Still: true})
	p.Until("ann holds both locks", `document.querySelector("#status").textContent === "Naive lock: ann holds. zkgrant: ann holds. Shards: ann 2, bob 2, cid 2."`)
	p.Until("both scores are grey", `document.querySelectorAll(".score.untried").length === 2 && document.querySelectorAll(".score.bad").length === 0`)
	quiet := func(what, since, seconds string) { // for the picture
		if *rewrite {
			p.Until(what, `now() > `+since+` + `+seconds)
		}
	}
	quiet("ann has held for a while", `0`, `16`)
	focused := func(want string) {
		t.Helper()
		p.Press(kb.Tab)
		got := browser.Value[string](p, `document.activeElement.textContent`)
		eventstest.Equal(t, got, want, "where the tab key goes")
	}
	focused("Cut the holder off")
	p.Press(kb.Enter)
	p.Until("the naive lock has two holders", `picture.Sides[0].Times === 1 && picture.Sides[0].Overlaps[0].Open`)
	p.Until("bob holds the other one", `picture.Sides[1].Lanes[1].Bars.at(-1).State === "holds"`)
	quiet("the two have held for a while", `picture.Sides[0].Overlaps[0].From / 1e9`, `6`)
	focused("Heal the network")
	p.Press(kb.Enter)
	p.Until("ann was notified, and queues again", `["naive", "zkgrant"].every((key, i) => picture.Sides[i].Lanes[0].Bars.at(-1).State === "waits")`)
	quiet("ann has waited for a while", `picture.Sides[0].Overlaps[0].To / 1e9`, `3`)

	p.Until("the scores are not grey any more", `document.querySelectorAll(".score.untried").length === 0`)
	for score, want := range map[string]string{
		"#score-naive .count":    `^two holders: 1 time, (\d+\.\d s|\d+ ms) in all$`,
		"#score-zkgrant .count":  `^two holders: 0 times$`,
		"#score-zkgrant .behind": `^Last notified (\d+\.\d s|\d+ ms) before the next grant\.$`,
		"#score-naive .behind":   `^1 of 1 lasted until you healed the network`,
	} {
		got := p.Text(score)
		eventstest.Expect(t, regexp.MustCompile(want).MatchString(got), "%s is %q, want %s", score, got, want)
	}
	strip := browser.Value[string](p, `document.querySelector(".twotext, .twobeside").textContent`)
	until := regexp.MustCompile(`^two holders for (\d+\.\d s|\d+ ms), until you healed$`)
	eventstest.Expect(t, until.MatchString(strip), "the strip says %q, want until when", strip)
	margin := browser.Value[[]float64](p, `picture.Sides[1].Margins.map((m) => (m.Granted - m.Lost) / 1e9)`)
	eventstest.Expect(t, len(margin) == 1 && margin[0] > 0,
		"seconds from a loss of zkgrant's to the next grant: %v, want one, above 0", margin)
	if *rewrite {
		p.Look(browser.View{Width: 1280, Height: 914})
		p.Until("it is drawn", `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))`)
		eventstest.Must(t, os.WriteFile("../../docs/demo.png", p.Screenshot(), 0o600))
		t.Logf("%s | %s | notified %.1f s before", p.Text("#score-naive .count"), p.Text("#score-zkgrant .behind"), margin)
	}
	// The sides of the bracket where the label is while it scrolls out of the picture, or
	// how it is cut.
	sides := browser.Value[[]string](p, `(() => {
		const left = document.querySelector("#lanes").getBoundingClientRect().left + layout().left, seen = [], t = picture.Sides[1].Margins[0].Granted / 1e9 + 1;
		for (let later = 0; later < 60; later++) {
			for (const move of moving) move(t + later / 2);
			const label = document.querySelector(".margintext"), at = label.getBoundingClientRect();
			const side = label.getAttribute("display") === "none" ? "none" : at.left < left ? "cut" : label.getAttribute("text-anchor");
			if (side !== seen.at(-1)) seen.push(side);
		}
		frame();
		return seen;
	})()`)
	eventstest.Equal(t, sides, []string{"end", "start", "none"}, "the sides of the label beside the bracket")
	p.Look(browser.View{Width: 360, Height: 780, Phone: true, Still: true})
	fits := browser.Value[bool](p, `document.documentElement.scrollWidth <= innerWidth`)
	eventstest.Expect(t, fits, "a phone has to scroll sideways")
	above := func(view browser.View, upper, lower string) {
		t.Helper()
		p.Look(view)
		p.Until(fmt.Sprintf("%s is above %s at a width of %d", upper, lower, view.Width),
			fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom <= document.querySelector(%q).getBoundingClientRect().top`, upper, lower))
	}
	above(browser.View{Width: 360, Height: 780, Phone: true, Still: true}, "#lanes", "#actors")
	above(browser.View{Width: 1280, Height: 900, Still: true}, "#actors", "#lanes")
	behaves(t, p, url)
	program.Send(syscall.SIGTERM)
	program.Exits(130)
}

// TestTheDemoShowsWhatEveryDisconnectCosts: with the check mark, the naive lock has one
// holder, which loses the lock when a server restarts. zkgrant's holder keeps it.
func TestTheDemoShowsWhatEveryDisconnectCosts(t *testing.T) {
	t.Parallel()
	url, program := beginDemo(t)
	p := browser.Open(t, url, browser.View{Still: true})
	p.Until("ann holds both locks", `document.querySelector("#status").textContent.startsWith("Naive lock: ann holds. zkgrant: ann holds.")`)
	names := []string{p.Text("#recipe")}
	p.Click("#careful")
	p.Until("the page shows it", `picture.Careful && [...document.querySelectorAll("text.title")].some((e) => e.textContent === "Naive lock: a disconnect is a loss")`)
	if names = append(names, p.Text("#recipe")); !strings.Contains(names[0], "zk.Lock") || names[0] == names[1] {
		t.Errorf("the recipe is %q, want zk.Lock's, and then another one", names)
	}
	p.Click("[data-what=strike]")
	p.Until("it has cost the lock once", `document.querySelector("#score-naive .behind").textContent.endsWith("Gave the lock up 1 time though its session lived on.")`)
	p.Until("bob holds it, and ann still holds the other one",
		`document.querySelector("#status").textContent.startsWith("Naive lock: bob holds. zkgrant: ann holds.")`)
	p.Click("[data-what=cut-holder]")
	p.Until("cid holds it after the cut", `document.querySelector("#status").textContent.startsWith("Naive lock: cid holds. zkgrant: cid holds.")`)
	for _, id := range []string{"naive", "zkgrant"} {
		got := p.Text("#score-" + id + " .count")
		none := strings.HasPrefix(got, "two holders: 0 times")
		eventstest.Expect(t, none, "the score of %s is %q, want no two holders", id, got)
	}
	p.Click("#careful")
	p.Until("it ignores disconnects again", `!picture.Careful`)
	program.Send(syscall.SIGTERM)
	program.Exits(130)
}

// TestTheDemoShowsShardsMove: the shards move away from a killed or paused member, and
// back.
func TestTheDemoShowsShardsMove(t *testing.T) {
	t.Parallel()
	url, program := beginDemo(t)
	p := browser.Open(t, url, browser.View{Still: true})
	shares := func(what, want string) {
		t.Helper()
		p.Until(what, `document.querySelector("#status").textContent.endsWith(`+strconv.Quote("Shards: "+want+".")+`)`)
	}
	shares("each has two", "ann 2, bob 2, cid 2")
	p.Click("[data-who=ann][data-kind=kill]")
	shares("the others have hers", "ann 0, bob 3, cid 3")
	p.Until("a dead contender can only be started", `[...document.querySelectorAll("[data-who=ann]:enabled")].map((b) => b.textContent).join() === "Start"`)
	p.Click("[data-who=ann][data-kind=kill]")
	shares("each has two again", "ann 2, bob 2, cid 2")
	p.Click("[data-who=cid][data-kind=pause]")
	shares("the others have those of the paused one", "ann 3, bob 3, cid 0")
	p.Click("[data-who=cid][data-kind=pause]")
	shares("each has two after the pause", "ann 2, bob 2, cid 2")
	eventstest.Equal(t, browser.Value[int](p, `picture.Twice`), 0, "how often a shard had two owners")
	drawn := browser.Value[int](p, `document.querySelectorAll("rect.owner").length`)
	eventstest.Expect(t, drawn >= 12, "%d bars are drawn, want two for each shard at least", drawn)
	program.Send(syscall.SIGTERM)
	program.Exits(130)
}
