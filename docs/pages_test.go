// Package docs_test holds the pages to what they say: their Go compiles and ends when it is told to, their links lead somewhere, and README
// stays short.
package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the module's folder.
const root = ".."

// pages lists the pages by their paths in the module.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	eventstest.Must(t, err)
	if len(found) < 12 {
		t.Fatalf("only %d pages in docs, want 12 or more", len(found))
	}
	all := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, page := range found {
		all = append(all, "docs/"+page)
	}
	return all
}

// read returns the text of a file of the module.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	eventstest.Must(t, err)
	return string(text)
}

// fence is a block of a page between ``` and ```, without the indentation of its first line.
type fence struct {
	language string
	text     string
	line     int // of its first line
}

// split takes a page apart: its prose, in which the blocks are empty lines, and its blocks.
func split(text string) (prose string, fences []fence) {
	var out strings.Builder
	var open *fence
	var indent string
	number := 0
	for line := range strings.Lines(text) {
		number++
		bare := strings.TrimLeft(line, " ")
		language, marks := strings.CutPrefix(strings.TrimSpace(bare), "```")
		switch {
		case marks && open == nil:
			open, indent = &fence{language: language, line: number + 1}, line[:len(line)-len(bare)]
			out.WriteByte('\n')
		case marks:
			fences, open = append(fences, *open), nil
			out.WriteByte('\n')
		case open != nil:
			open.text += strings.TrimPrefix(line, indent)
			out.WriteByte('\n')
		default:
			out.WriteString(line)
		}
	}
	return out.String(), fences
}

// anchors lists the names that the headings of a page have for links, as GitHub makes them.
func anchors(prose string) map[string]bool {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	found, count := map[string]bool{}, map[string]int{}
	for line := range strings.Lines(prose) {
		marks, title, heading := strings.Cut(line, " ")
		if !heading || marks == "" || strings.Trim(marks, "#") != "" {
			continue
		}
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
		count[name]++
		if n := count[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n-1)
		}
		found[name] = true
	}
	return found
}

// testsOf lists the tests, examples and benchmarks of a Go file.
func testsOf(source string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`).FindAllStringSubmatch(source, -1) {
		found[m[1]] = true
	}
	return found
}

// TestLinks: what a page links to exists, headings included, and a test that is a link's text is in the file that the link leads to.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	named := regexp.MustCompile(`^(?:Test|Example|Fuzz|Benchmark)[A-Z]\w+$`)
	links, tests, parts := 0, 0, 0
	for _, page := range pages(t) {
		prose, _ := split(read(t, page))
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			label, target := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			links++
			name, part, hasPart := strings.Cut(target, "#")
			file := page
			if name != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(page), name))
			}
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				t.Errorf("%s: [%s] leads to %s: %v", page, label, target, err)
				continue
			}
			if hasPart {
				parts++
				if there, _ := split(read(t, file)); !anchors(there)[part] {
					t.Errorf("%s: [%s] leads to %s, want a heading of %s", page, label, target, file)
				}
			}
			if named.MatchString(label) {
				tests++
				if info.IsDir() || !testsOf(read(t, file))[label] {
					t.Errorf("%s: there is no %s in %s", page, label, file)
				}
			}
		}
	}
	if links < 200 || tests < 80 || parts < 20 {
		t.Errorf("%d links, %d to tests and %d to headings were looked at, want 200, 80 and 20 or more", links, tests, parts)
	}
}

// TestNamesOfTests: a test that a page names without a link exists somewhere in the repository.
func TestNamesOfTests(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"TestMain": true}
	eventstest.Must(t, filepath.WalkDir(root, func(file string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != root {
			return filepath.SkipDir
		}
		if strings.HasSuffix(file, "_test.go") {
			maps.Copy(there, testsOf(read(t, filepath.ToSlash(file)[len(root)+1:])))
		}
		return nil
	}))
	name := regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)[A-Z]\w+`)
	for _, page := range pages(t) {
		prose, _ := split(read(t, page))
		for _, found := range name.FindAllString(prose, -1) {
			if !there[found] {
				t.Errorf("%s names %s, want a test that exists", page, found)
			}
		}
	}
}

// TestEachPageIsLinked: a reader of README finds every page.
func TestEachPageIsLinked(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	for _, page := range pages(t)[1:] {
		if !strings.Contains(readme, "("+page+")") {
			t.Errorf("README does not link to %s, want each page", page)
		}
	}
}

// TestReadmeIsShort: it is for somebody in a hurry.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	const mostLines, mostWords = 200, 1800
	text := read(t, "README.md")
	if lines, words := strings.Count(text, "\n"), len(strings.Fields(text)); lines > mostLines || words > mostWords {
		t.Errorf("README has %d lines and %d words, want at most %d and %d: move what is new to docs", lines, words, mostLines, mostWords)
	}
}

// TestTableCellsAreShort: what needs more words is a paragraph. Targets of links do not count.
func TestTableCellsAreShort(t *testing.T) {
	t.Parallel()
	const most = 20
	target := regexp.MustCompile(`\]\([^)]*\)`)
	cells := 0
	for _, page := range pages(t) {
		if page == "CONTRIBUTING.md" {
			continue
		}
		prose, _ := split(read(t, page))
		number := 0
		for line := range strings.Lines(prose) {
			number++
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(target.ReplaceAllString(line, "]"), "|") {
				cells++
				if words := len(strings.Fields(cell)); words > most {
					t.Errorf("%s:%d: a cell has %d words, want at most %d: %s", page, number, words, most, strings.TrimSpace(cell))
				}
			}
		}
	}
	if cells < 500 {
		t.Errorf("only %d cells were looked at, want 500 or more", cells)
	}
}
