package top

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScreens plays the scripts of testdata: the messages, effects and screens of the
// model. -rewrite updates them.
//
//	hear  one message per line; prints the effects. Messages:
//	      size WIDTH HEIGHT | beat SECONDS STATE | due | said TEXT | invalid |
//	      revoked PATH [ERROR] | paste TEXT
//	      look SECONDS, followed by indented lines: PATH KIND [size=N], and with more
//	      indent holds|keeps|waits SECONDS NODE [DATA], or error TEXT
//	type  keys, separated by blanks; prints the effects
//	show  prints the screen as text; checks that every line fits
//	looks prints the screen with its colours
func TestScreens(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		m, _ := begin(Options{Root: "/locks", Interval: time.Second, Grace: 10 * time.Second}, second(0))
		hears := func(all ...tea.Msg) string {
			var caused, effects []effect
			for _, message := range all {
				m, effects = m.update(message)
				caused = append(caused, effects...)
			}
			return printed(caused)
		}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "hear":
				return hears(messages(t, d.Input)...)
			case "type":
				var keys []tea.Msg
				for _, key := range strings.Fields(d.Input) {
					keys = append(keys, pressing(key))
				}
				return hears(keys...)
			case "show", "looks":
				screen := m.view()
				fits(t, m, screen)
				if d.Cmd == "show" {
					return framed(ansi.Strip(screen))
				}
				return framed(strings.ReplaceAll(screen, "\x1b", "ESC"))
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// framed marks the end of each line.
func framed(screen string) string {
	if screen == "" {
		return ""
	}
	return strings.ReplaceAll(screen, "\n", "|\n") + "|\n"
}

func fits(t *testing.T, m model, screen string) {
	t.Helper()
	if screen == "" && m.width*m.height == 0 {
		return
	}
	lines := strings.Split(screen, "\n")
	eventstest.Expect(t, len(lines) <= m.height,
		"the screen has %d lines, want %d at most", len(lines), m.height)
	for _, line := range lines {
		width := ansi.StringWidth(line)
		eventstest.Expect(t, width <= m.width, "a line is %d wide, want %d at most: %s", width, m.width, line)
	}
}

func second(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0) }

func printed(effects []effect) string {
	if len(effects) == 0 {
		return "nothing\n"
	}
	var all strings.Builder
	for _, e := range effects {
		fmt.Fprintf(&all, "%T %v\n", e, e)
	}
	return strings.NewReplacer("top.", "", " {}", "").Replace(all.String())
}

func pressing(key string) tea.Msg {
	special := map[string]tea.Key{
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown},
		"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape},
		"backspace": {Code: tea.KeyBackspace}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "space": {Code: tea.KeySpace, Text: " "},
	}
	if k, ok := special[key]; ok {
		return tea.KeyPressMsg(k)
	}
	return tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
}

// messages parses a script's messages.
func messages(t *testing.T, script string) (all []tea.Msg) {
	t.Helper()
	for line := range strings.Lines(script) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		words := strings.Fields(line)
		rest := strings.Join(words[1:], " ")
		var m tea.Msg
		switch {
		case indent == 1:
			walk := all[len(all)-1].(looked)
			walk.locks = append(walk.locks, lockOf(t, words))
			all[len(all)-1] = walk
			continue
		case indent > 1:
			locks := all[len(all)-1].(looked).locks
			last := &locks[len(locks)-1]
			if words[0] == "error" {
				last.err = fmt.Errorf("zkgrant: reading %s: %w", last.Path, errors.New(rest))
			} else {
				last.Contenders = append(last.Contenders, contenderOf(t, last.Path, words))
			}
			continue
		case words[0] == "look":
			m = looked{at: second(number(t, words[1]))}
		case words[0] == "invalid":
			m = looked{err: coordinator.ErrPath}
		case words[0] == "size":
			m = tea.WindowSizeMsg{Width: number(t, words[1]), Height: number(t, words[2])}
		case words[0] == "beat":
			states := []coordinator.State{coordinator.StateConnecting, coordinator.StateConnected, coordinator.StateSuspended}
			i := slices.IndexFunc(states, func(s coordinator.State) bool { return s.String() == words[2] })
			m = beat{second(number(t, words[1])), states[i]}
		case words[0] == "due":
			m = due{}
		case words[0] == "said":
			m = said(unquoted(t, rest))
		case words[0] == "paste":
			m = tea.PasteMsg{Content: rest + "\n"}
		case words[0] == "revoked":
			r := revoked{path: words[1]}
			switch {
			case rest == r.path+" not held":
				r.err = fmt.Errorf("zkgrant: revoking %s: %w", r.path, coordinator.ErrNotHeld)
			case len(words) > 2:
				r.err = errors.New(unquoted(t, strings.Join(words[2:], " ")))
			}
			m = r
		default:
			t.Fatalf("unknown message %s", line)
		}
		all = append(all, m)
	}
	return all
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	eventstest.Must(t, err)
	return n
}

func lockOf(t *testing.T, words []string) row {
	t.Helper()
	kinds := []events.LockKind{events.LockMutex, events.LockReadWrite, events.LockSemaphore, events.LockUnfair, events.LockUnknown}
	i := slices.IndexFunc(kinds, func(k events.LockKind) bool { return k.String() == words[1] })
	r := row{LockInfo: events.LockInfo{Path: unquoted(t, words[0]), Kind: kinds[i]}}
	if len(words) > 2 {
		r.Size = number(t, strings.TrimPrefix(words[2], "size="))
	}
	return r
}

// unquoted replaces each \x escape with its byte.
func unquoted(t *testing.T, text string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + text + `"`)
	eventstest.Must(t, err)
	return out
}

func contenderOf(t *testing.T, path string, words []string) events.Contender {
	t.Helper()
	data, node := unquoted(t, strings.Join(words[3:], " ")), number(t, words[2])
	return events.Contender{
		Node: fmt.Sprintf("%s/%010d", path, node), Session: 0x100000 + int64(node), Since: second(number(t, words[1])),
		Data: []byte(data), Kind: events.KindLock, Holding: words[0] != "waits", Cached: words[0] == "keeps",
		Token: 4294967296 + int64(node),
	}
}

// The manual shows a screen from manual.txt.
func TestManualShowsTop(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/command.md")
	eventstest.Must(t, err)
	script, err := os.ReadFile("testdata/manual.txt")
	eventstest.Must(t, err)
	parts := strings.Split(string(script), "show\n----\n")
	screen := strings.TrimSpace(regexp.MustCompile(` *\|\n`).ReplaceAllString(parts[1], "\n"))
	eventstest.Expect(t, strings.Contains(string(page), "```\n"+screen+"\n```"),
		"docs/command.md has no block with\n%s", screen)
}

// The screen fits into a terminal of any size.
func TestEverySizeFits(t *testing.T) {
	m, _ := begin(Options{Root: "/locks", Interval: time.Second, Grace: time.Second}, second(0))
	walk := looked{at: second(0)}
	for i := range 30 {
		path := fmt.Sprintf("/locks/%s/%d", strings.Repeat("長い", i%8), i)
		r := row{LockInfo: events.LockInfo{Path: path, Kind: events.LockMutex}}
		for j := range i {
			r.Contenders = append(r.Contenders, events.Contender{Node: fmt.Sprint(path, j), Since: second(-j), Holding: j == 0, Data: []byte("who " + path)})
		}
		if i%7 == 3 {
			r.err = errors.New("no authentication, for a reason that takes a long time to tell")
		}
		walk.locks = append(walk.locks, r)
	}
	m, _ = m.update(walk)
	for _, keys := range [][]string{{}, {"G"}, {"r"}, {"n", "/", "長"}, {"enter", "esc", "/", "x", "x"}} {
		for _, key := range keys {
			m, _ = m.update(pressing(key))
		}
		for width := 0; width < 100; width += 1 + width/12 {
			for height := range 15 {
				m, _ = m.update(tea.WindowSizeMsg{Width: width, Height: height})
				fits(t, m, m.view())
				if height > 4 && width > 2 && len(m.rows) > 0 && !strings.Contains(m.view(), "> ") {
					t.Fatalf("at %d x %d the selected row is not on the screen:\n%s", width, height, ansi.Strip(m.view()))
				}
			}
		}
	}
}
