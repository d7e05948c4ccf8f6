package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/board"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// shows returns an expression that is true if the page shows the lock with these holders
// and waiters.
func shows(path, holders, waiters string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".lock")].some((l) =>
		l.querySelector(".name").textContent === %q &&
		[...l.querySelectorAll(".holders .who")].map((w) => w.textContent).join() === %q &&
		[...l.querySelectorAll(".waiters .who")].map((w) => w.textContent).join() === %q)`, path, holders, waiters)
}

func TestBoardShowsHoldersAndWaiters(t *testing.T) {
	s := startReal(t)
	s.queue(s.other.Mutex("/locks/invoices"), "ann", "bob", "eve")
	rw := s.other.ReadWrite("/locks/index")
	s.queue(rw.Read(), "reader 1", "reader 2")
	s.queue(rw.Write(), "writer")
	s.queue(s.other.Semaphore("/locks/exports", 2), "export 1", "export 2", "export 3")
	s.queue(s.c.Unfair("/locks/deploy"), "this one")
	cached := s.other.Mutex("/locks/counter", coordinator.Cached())
	for range 2 { // the second node stays
		eventstest.Must(t, cached.Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
	}
	p := browser.Open(t, s.url, browser.View{})
	p.Until("the mutex is shown", shows("/locks/invoices", "ann", "bob,eve"))
	p.Until("the read/write lock is shown", shows("/locks/index", "reader 1,reader 2", "writer"))
	p.Until("the semaphore is shown", shows("/locks/exports", "export 1,export 2", "export 3"))
	p.Until("the unfair lock is shown", shows("/locks/deploy", "this one", ""))
	p.Until("the cached lock may be idle", `[...document.querySelectorAll(".lock")].some((l) =>
		l.querySelector(".name").textContent === "/locks/counter" && l.querySelector(".holders .side")?.textContent === "may be idle")`)
	for selector, want := range map[string]string{"#total": "5", "#held": "5", "#waiters": "4", "#status": "live", "#root": "/"} {
		eventstest.Equal(t, p.Text(selector), want, "%s", selector)
	}
	p.Until("the lease of this process is drawn", `document.querySelectorAll(".lease").length === 1 &&
		Number(getComputedStyle(document.documentElement).getPropertyValue("--lease")) > 0.3`)
	behaves(t, p, s.url)
}

// listener reads the updates that the server sends to pages.
type listener struct {
	t  *testing.T
	in *bufio.Reader
}

// listen opens the stream of updates until the test ends.
func (s *scene) listen() listener {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"events", nil)
	eventstest.Must(s.t, err)
	response, err := http.DefaultClient.Do(r)
	eventstest.Must(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	return listener{s.t, bufio.NewReader(response.Body)}
}

// sent is the part of an update that the tests read.
type sent struct {
	Interval float64           `json:"interval_ms"`
	Took     float64           `json:"took_ms"`
	Locks    []json.RawMessage `json:"locks"`
}

// next returns the next update and its length.
func (l listener) next() (bytes int, u sent) {
	l.t.Helper()
	for {
		line, err := l.in.ReadBytes('\n')
		eventstest.Must(l.t, err)
		if text, ok := strings.CutPrefix(string(line), "data: "); ok {
			eventstest.Must(l.t, json.Unmarshal([]byte(text), &u))
			return len(line), u
		}
	}
}

// TestBoardShowsAChangeWithinASecond is about a queue that was quiet. A queue that keeps
// changing is read once per probe interval.
func TestBoardShowsAChangeWithinASecond(t *testing.T) {
	s := startReal(t)
	const rounds = 5
	path := func(i int) string { return fmt.Sprint("/locks/", i) }
	var first []*coordinator.Acquisition
	for i := range rounds {
		first = append(first, s.queue(s.other.Mutex(path(i)), "ann", "bob")[0])
	}
	p := browser.Open(t, s.url, browser.View{})
	var took []time.Duration
	for i := range rounds {
		p.Until("it is shown", shows(path(i), "ann", "bob"))
	}
	for i := range rounds {
		began := time.Now()
		first[i].Release()
		<-first[i].Done() // its node is deleted, so it is not counted below
		p.Until("the next one holds it", shows(path(i), "bob", ""))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	_, u := s.listen().next()
	look := time.Duration((u.Interval + u.Took) * float64(time.Millisecond))
	t.Logf("from a release to the page: %v; a look each %v ms takes %v ms", took, u.Interval, u.Took)
	if median := took[rounds/2]; median > 2*look { // the second look also shows queues that are not watched yet
		t.Errorf("from a release to the page: %v in the median, want at most two looks of %v", median, look)
	}
	p.Until("the timeline tells of it", fmt.Sprintf(`document.querySelectorAll("#timeline [data-what=granted]").length === %d`, rounds))
	latest := browser.Value[string](p, `document.querySelector("#timeline [data-what=granted]").textContent`)
	eventstest.Expect(t, strings.Contains(latest, "granted /locks/4") && strings.Contains(latest, "bob"),
		"the latest grant in the timeline: %q", latest)
	behaves(t, p, s.url)
}

func TestBoardShowsHostileNamesAndDataAsText(t *testing.T) {
	s := startReal(t)
	evil := []string{
		`<script>window.stung = 1</script>`, `"><img src=x onerror="window.stung = 2">`, "turned \u202egnihton\u2066", "no UTF-8: \xff\xfe",
		"zero\u200bwidth\x00\x1b[31m", strings.Repeat("long ", 20_000), `{{7*7}} ${7*7} javascript:alert(1)`,
	}
	path := `/locks/<img src=x onerror="window.stung=3">`
	s.queue(s.other.Mutex(path), evil...)
	p := browser.Open(t, s.url, browser.View{})
	long := strings.Repeat("long ", 51) + "l… (100,000 bytes)"
	p.Until("names and data are shown as they are", shows(path, evil[0], strings.Join([]string{
		evil[1], "turned \ufffdgnihton\ufffd", "no UTF-8: \ufffd\ufffd", "zero\ufffdwidth\ufffd\ufffd[31m", long, evil[6],
	}, ",")))
	p.Click(".name")
	p.Until("the dialog has a row each", `document.querySelectorAll("#contenders tr").length === 7`)
	p.Press(kb.Escape)
	p.Press("/script")
	p.Until("the filter finds it", `document.querySelectorAll(".lock").length === 1`)
	found := browser.Value[string](p, `[window.stung ?? "nothing",
		document.querySelectorAll("main img, main script, aside img, dialog img, dialog script").length,
		document.scripts.length].join()`)
	eventstest.Equal(t, found, "nothing,0,1", "what ran, foreign images and scripts, scripts")
	behaves(t, p, s.url)
}

func TestBoardIsUsedWithTheKeyboardAlone(t *testing.T) {
	s := start(t)
	s.queue(s.other.Mutex("/locks/a"), "ann", "bob")
	s.queue(s.other.Mutex("/locks/b"), "eve")
	s.queue(s.c.Mutex("/locks/c"), "own")
	p := browser.Open(t, s.url, browser.View{})
	p.Until("the locks are shown", `document.querySelectorAll(".lock").length === 3`)
	focused := func(want string) {
		t.Helper()
		got := browser.Value[string](p, "document.activeElement.textContent || document.activeElement.id")
		eventstest.Equal(t, got, want, "where the focus is")
	}
	rows := func(n int) string { return fmt.Sprintf(`document.querySelectorAll(".lock").length === %d`, n) }
	p.Press("jj")
	focused("/locks/b")
	p.Press("k")
	focused("/locks/a")
	p.Press(kb.ArrowDown + kb.ArrowDown + kb.ArrowUp)
	focused("/locks/b")
	p.Press("k" + kb.Enter)
	p.Until("the dialog shows the contenders", `document.querySelector("#detail").open && document.querySelectorAll("#contenders tr").length === 2`)
	p.Press(kb.Escape)
	p.Until("it is closed", `!document.querySelector("#detail").open`)
	focused("/locks/a")
	p.Press("w")
	p.Until("only the lock with a waiter is left", rows(1))
	p.Press("wo")
	p.Until("only the lock of this process is left", rows(1)+` && document.querySelector(".name").textContent === "/locks/c"`)
	p.Press("o/eve")
	p.Until("only the lock whose holder's data match is left", rows(1)+` && document.querySelector(".name").textContent === "/locks/b"`)
	p.Press(kb.Escape)
	p.Until("all are back", rows(3))
	p.Press("s")
	p.Until("the lock with the most waiters is the first", `document.querySelector("#sort").value === "waiters" && document.querySelector(".name").textContent === "/locks/a"`)
	p.Press("?")
	p.Until("the shortcuts are shown", `document.querySelector("#keys").open`)
	p.Press(kb.Escape)
	// Everything that can be clicked can be reached with Tab.
	p.Eval(`document.activeElement.blur(), window.reached = new Set(), addEventListener("focusin", (e) => reached.add(e.target)), 0`, nil)
	p.Press(strings.Repeat(kb.Tab, 12))
	missed := browser.Value[[]string](p, `[...document.querySelectorAll("button, input, select, a")]
		.filter((e) => e.checkVisibility() && !reached.has(e)).map((e) => e.outerHTML)`)
	eventstest.Expect(t, len(missed) == 0, "not reached with Tab: %q", missed)
	behaves(t, p, s.url)
}

func TestBoardAsksForALockBack(t *testing.T) {
	s := start(t, board.WithRevoke(func(*http.Request) error { return nil }))
	held := s.other.Mutex("/locks/a", coordinator.Revocable()).Acquire(t.Context(), coordinator.Data([]byte("ann")))
	eventstest.Receive(t, held.Granted(), "the Grant")
	p := browser.Open(t, s.url, browser.View{})
	p.Until("it is shown", shows("/locks/a", "ann", ""))
	p.Click(".name")
	p.Until("the button is there", `!document.querySelector("#revoke").hidden && document.querySelector("#contenders tr")`)
	p.Click("#revoke summary")
	p.Eval(`document.querySelector("#grace").value = "0.1", 0`, nil)
	p.Eval(`document.querySelector("#grace").step = "any", 0`, nil)
	p.Click("#ask button")
	eventstest.Receive(t, held.Lost(), "the loss")
	p.Until("the page says that it is not held any more", `document.querySelector("#answer").textContent === "The holders that were asked are gone."`)
	p.Until("the page says that the lock is gone", `document.querySelector("#about").textContent.startsWith("It is gone")`)
	seen := browser.Value[[]string](p, `[...document.querySelectorAll("#answer, thead")]
		.filter((e) => e.checkVisibility()).map((e) => e.textContent)`)
	eventstest.Equal(t, seen, []string{"The holders that were asked are gone."},
		"the answer and the head of the table in the dialog, with the lock gone")
	p.Press(kb.Escape)
	p.Until("the dialog is closed", `!document.querySelector("#detail").open`)
	p.Until("the timeline has the revocation once", `document.querySelectorAll("#timeline [data-what=asked]").length === 1`)
	behaves(t, p, s.url)
}

// TestBoardShowsOneLockInItsDialog, also when the board is restarted meanwhile: it shows
// and revokes no other lock. If the board cannot tell, the lock is not called gone.
func TestBoardShowsOneLockInItsDialog(t *testing.T) {
	all := board.WithRevoke(func(*http.Request) error { return nil })
	s := start(t, all)
	hold := func(path, name string) *coordinator.Acquisition {
		a := s.other.Mutex(path, coordinator.Revocable()).Acquire(t.Context(), coordinator.Data([]byte(name)))
		eventstest.Receive(t, a.Granted(), "the Grant")
		return a
	}
	ann, bob := hold("/locks/a", "ann"), hold("/locks/b", "bob")
	p := browser.Open(t, s.url, browser.View{})
	p.Until("both are shown", shows("/locks/a", "ann", "")+" && "+shows("/locks/b", "bob", ""))
	s.broken.Store(true)
	p.Click(".name")
	p.Until("the dialog says why it has no contenders", `document.querySelector("#about").textContent.includes("the servers do not answer")`)
	s.broken.Store(false)
	ann.Release()
	<-ann.Done()
	s.show(all)
	p.Until("the lock of the dialog is gone", `document.querySelector("#about").textContent.startsWith("It is gone") &&
		document.querySelector("#path").textContent === "/locks/a" && document.querySelectorAll("#contenders tr").length === 0`)
	p.Eval(`document.querySelector("#ask").requestSubmit(), 0`, nil)
	p.Until("its revocation is refused", `document.querySelector("#answer").textContent.includes("this lock is gone")`)
	eventstest.Expect(t, len(bob.Revoked()) == 0 && bob.Valid(), "another lock was revoked")
	p.Press(kb.Escape)
	p.Until("the dialog is closed", `!document.querySelector("#detail").open`)
	hold("/locks/a", "zoe")
	p.Until("it is shown again", shows("/locks/a", "zoe", ""))
	p.Click(".name")
	p.Until("the dialog shows it", `document.querySelectorAll("#contenders tr").length === 1 && document.querySelector("#contenders").textContent.includes("zoe")`)
}

// TestBoardDoesNotCallALockGoneThatItHasNotFoundYet: after a restart, it searches a large
// tree for the lock in the dialog.
func TestBoardDoesNotCallALockGoneThatItHasNotFoundYet(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	s := startOn(t, server.Addr())
	s.queue(s.other.Mutex("/y/z"), "ann")
	p := browser.Open(t, s.url, browser.View{})
	p.Until("the lock is shown", shows("/y/z", "ann", ""))
	p.Click(".name")
	p.Until("the dialog shows it", `document.querySelectorAll("#contenders tr").length === 1`)
	p.Eval(`window.abouts = new Set(), new MutationObserver(() => abouts.add(document.querySelector("#about").textContent))
		.observe(document.querySelector("#about"), {childList: true, characterData: true, subtree: true}), 0`, nil)
	for i := range 5000 {
		eventstest.Must(t, server.Create(fmt.Sprintf("/m/%04d", i), nil))
	}
	s.show()
	p.Until("it says that it searches", `[...abouts].some((a) => a.includes("not found yet"))`)
	p.Until("it has found the lock", `document.querySelector("#about").textContent.includes("1 holder")`)
	gone := browser.Value[bool](p, `[...abouts].some((a) => a.includes("It is gone"))`)
	eventstest.Expect(t, !gone, "meanwhile the lock was called gone")
}

// TestBoardOffersNoRevocationThatIsRefused: if a revocation is requested anyway, the
// timeline says that it was refused, not that a holder was asked.
func TestBoardOffersNoRevocationThatIsRefused(t *testing.T) {
	s := start(t, board.WithRevoke(func(*http.Request) error { return nil }))
	s.queue(s.other.Mutex("/locks/a"), "ann")
	p := browser.Open(t, s.url, browser.View{Width: 360, Height: 740, Phone: true})
	p.Until("it is shown", shows("/locks/a", "ann", ""))
	p.Click(".name")
	p.Until("the dialog says why it cannot be revoked", `document.querySelector("#contenders tr") &&
		document.querySelector("#firm").checkVisibility() && !document.querySelector("#revoke").checkVisibility()`)
	drawn := browser.Value[[]string](p, `
		[...document.querySelectorAll("#contenders tr:last-child, #contenders tr:last-child td")]
		.map((e) => getComputedStyle(e).borderBottomWidth).filter((width) => width !== "0px")`)
	eventstest.Expect(t, len(drawn) == 0,
		"below the last contender there are lines of %q, want none: the request has one above it", drawn)
	p.Eval(`document.querySelector("#ask").requestSubmit(), 0`, nil) // as from an outdated page
	p.Until("the page says so", `document.querySelector("#answer").textContent.includes("not revocable")`)
	p.Until("the timeline has the refusal", `document.querySelector("#timeline [data-what=refused]")`)
	text := browser.Value[string](p, `
		document.querySelector("#timeline").textContent + document.querySelector("#answer").textContent`)
	if !strings.Contains(text, "revocation refused") || strings.Count(text, "revocation") != 1 || regexp.MustCompile(`[0-9a-f]{12}`).MatchString(text) || !strings.Contains(text, "…-lock-") {
		t.Errorf("timeline and answer say %q, want the refusal, no request, and no whole GUID", text)
	}
	if errors := p.Errors(); len(errors) != 1 || !strings.Contains(errors[0], "409") {
		t.Errorf("errors in the page: %q, want the refusal", errors)
	}
}

// TestBoardSaysWhatItHasNotSeen: the page does not guess between two kinds of lock with
// the same nodes, nor the time of a grant from before it was opened.
func TestBoardSaysWhatItHasNotSeen(t *testing.T) {
	s := start(t)
	first := s.queue(s.other.Election("/locks/a"), "ann", "bob", "eve")
	first[0].Release()
	eventstest.Receive(t, first[1].Granted(), "the Grant")
	p := browser.Open(t, s.url, browser.View{})
	times := func() []string {
		return browser.Value[[]string](p, `[...document.querySelectorAll(".chip .time")]
			.map((e) => e.textContent.replace("\u00a0", " ").replace(/\d+s/, "s"))`)
	}
	p.Until("it is shown", shows("/locks/a", "bob", "eve"))
	eventstest.Equal(t, times(), []string{"≤ s", "s"}, "the times if the grant was not seen")
	eventstest.Equal(t, p.Text(".facts"), "mutex or election · 1\u00a0waiter", "its kind")
	first[1].Release()
	p.Until("the next one holds it", shows("/locks/a", "eve", ""))
	eventstest.Equal(t, times(), []string{"s"}, "the times if the grant was seen")
	behaves(t, p, s.url)
}

func TestBoardSaysThatItConnectsAndHowOldItIs(t *testing.T) {
	s := start(t)
	s.queue(s.other.Mutex("/locks/a"), "ann")
	p := browser.Open(t, s.url, browser.View{})
	p.Until("the lock is shown", shows("/locks/a", "ann", ""))
	for _, test := range []struct{ change, undo, want string }{
		{`Date.now = () => real() + 3600e3`, `Date.now = real`, "live|What is shown was seen 1h 0m ago."},
		{`document.dispatchEvent(new Event("visibilitychange"))`, `0`, "connecting|"}, // visible again, it opens a new stream
	} {
		got := browser.Value[string](p, `(() => {
			const real = Date.now, at = (id) => document.getElementById(id);
			`+test.change+`;
			at("tools").dispatchEvent(new Event("input"));
			`+test.undo+`;
			return at("status").textContent + "|" + (at("notice").hidden ? "" : at("notice").textContent);
		})()`)
		said := strings.HasPrefix(got, test.want)
		eventstest.Expect(t, said, "after %s the page says %q, want %q", test.change, got, test.want)
	}
	p.Until("it is live again, and says no age", `document.querySelector("#notice").hidden && document.querySelector("#status").textContent === "live"`)
	behaves(t, p, s.url)
}

// 200 locks with 50 contenders each: the page has a bounded number of nodes, and gets a
// bounded number of bytes.
func TestBoardStaysSmallWithTenThousandContenders(t *testing.T) {
	s := start(t)
	const locks, contenders = 200, 50
	for i := range locks {
		for j := range contenders {
			s.other.Mutex(fmt.Sprintf("/locks/lock-%03d", i)).Acquire(t.Context(), coordinator.Data(fmt.Appendf(nil, "worker-%d-%d", i, j)))
		}
	}
	p := browser.Open(t, s.url, browser.View{})
	p.Until("all contenders are counted", fmt.Sprintf(`document.querySelector("#waiters").textContent === (%d).toLocaleString("en")`, locks*(contenders-1)))
	nodes := browser.Value[int](p, `document.querySelectorAll("*").length`)
	eventstest.Expect(t, nodes <= 8000, "the page has %d elements, want at most 8,000", nodes)
	chips := browser.Value[int](p, `document.querySelectorAll(".chip").length`)
	eventstest.Equal(t, chips, 100*12, "contenders, 12 in each of 100 locks")
	stream := s.listen()
	all, _ := stream.next()
	before := s.other.Mutex("/locks/lock-000").Acquire(t.Context(), coordinator.Data([]byte("one more")))
	p.Until("one more is counted", fmt.Sprintf(`document.querySelector("#waiters").textContent === (%d).toLocaleString("en")`, locks*(contenders-1)+1))
	update := browser.Value[float64](p, `performance.getEntriesByName("update")[0].duration`)
	more := browser.Value[string](p, `document.querySelector(".rest").textContent`)
	changed, u := stream.next()
	for len(u.Locks) == 0 {
		eventstest.Expect(t, changed <= 1000, "an update without a change has %d bytes", changed)
		changed, u = stream.next()
	}
	const one = 12*300 + 1000 // 12 contenders
	eventstest.Expect(t, changed <= one && all <= locks*one,
		"the first update has %d bytes, that of one change %d; want at most %d a lock", all, changed, one)
	t.Logf("%d elements; one update takes the page %.1f ms; the first has %d bytes, that of one change %d", nodes, update, all, changed)
	eventstest.Equal(t, more, "+39 more", "the end of the first lane")
	before.Release()
	behaves(t, p, s.url)
}
