//go:build unix

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestManual types the commands in the code blocks of the manual's pages into shells, and
// compares their output, except for numbers. Blocks for another terminal get a shell of
// their own, and keep running while the next blocks are typed.
func TestManual(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	for page, least := range map[string]int{"command": 6, "stuck": 3} {
		t.Run(page, func(t *testing.T) { testPage(t, e, page, least) })
	}
}

func testPage(t *testing.T, e *ensemble.Ensemble, name string, least int) {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name + ".md")
	eventstest.Must(t, err)
	blocks := regexp.MustCompile("(?s)```console( other)?\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < least {
		t.Fatalf("the page has %d blocks to run, want %d or more", len(blocks), least)
	}
	g := on(t, e.Connect())
	c, shell := g.coordinator(), g.shellOf()
	for _, block := range blocks {
		if block[1] != "" {
			command, shown, _ := strings.Cut(strings.TrimPrefix(block[2], "$ "), "\n")
			other, before := g.shellOf(), contenders(t, c)
			other.types(command)
			eventstest.Eventually(t, command, func() bool { return contenders(t, c) > before })
			t.Cleanup(func() {
				if got, want := blurred(other.prints()), blurred(shown); got != want {
					t.Errorf("the other terminal shows\n%s\nthe shell printed\n%s", want, got)
				}
				eventstest.Check(t, other.stop())
				other.Exits(0)
			})
			continue
		}
		var shown, printed strings.Builder
		for line := range strings.Lines(block[2]) {
			shown.WriteString(line)
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			printed.WriteString(line)
			before := contenders(t, c)
			printed.WriteString(shell.run(command))
			if strings.HasSuffix(strings.TrimSpace(command), "&") && !strings.Contains(command, "<") { // let the command queue up before the next one
				eventstest.Eventually(t, command, func() bool { return contenders(t, c) > before })
			}
		}
		got, want := blurred(printed.String()), blurred(shown.String())
		eventstest.Expect(t, got == want, "the manual shows\n%s\nthe shell printed\n%s", want, got)
	}
	eventstest.Check(t, shell.stop())
	shell.Exits(0)
}

// blurred replaces everything that differs from run to run.
func blurred(text string) string {
	for _, each := range []struct{ pattern, by string }{
		{`_c_[^"]*-lock-\d+`, "_c_"}, {`0x[0-9a-f]+`, "0x"}, {`"seconds":[0-9.e-]+`, "seconds"}, {`\b[0-9.]+m?s\b`, "1s"}, {`\d\d:\d\d:\d\d`, "12:00:00"}, {` +`, " "},
		{`(token"?[: ]|1s )\d+`, "${1}N"},
	} {
		text = regexp.MustCompile(each.pattern).ReplaceAllString(text, each.by)
	}
	return text
}

func contenders(t *testing.T, c *coordinator.Coordinator) int {
	t.Helper()
	n := 0
	for lock, err := range c.Locks(t.Context(), "/") {
		eventstest.Must(t, err)
		n += len(lock.Contenders)
	}
	return n
}

// shell is a bash that the test types into.
type shell struct {
	*situated

	t     *testing.T
	seen  int // how much of its output was read
	lines int
}

func (g *rig) shellOf() *shell {
	g.t.Helper()
	bash := g.command("bash")
	bash.Dir = g.t.TempDir()
	return &shell{situated: g.fed(bash), t: g.t}
}

// run types a line, and returns the output up to the next prompt.
func (s *shell) run(line string) string {
	s.t.Helper()
	s.types(strings.TrimSuffix(line, "\n"))
	return s.prints()
}

func (s *shell) types(line string) {
	s.t.Helper()
	s.lines++
	_, err := fmt.Fprintf(s.in, "%s\necho prompt %d\n", line, s.lines)
	eventstest.Must(s.t, err)
}

// prints returns the output of the last line, up to the next prompt.
func (s *shell) prints() string {
	s.t.Helper()
	mark := fmt.Sprintf("prompt %d\n", s.lines)
	s.Await(s.t, mark, 1)
	printed, _, _ := strings.Cut(s.String()[s.seen:], mark)
	s.seen += len(printed) + len(mark)
	return printed
}
