// Package docs_test checks the pages: their Go code compiles and exits on a signal, their
// links work, and README stays short.
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

const root = ".."

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

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	eventstest.Must(t, err)
	return string(text)
}

// fence is a fenced code block on a page, without the indentation of its first line.
type fence struct {
	language string
	text     string
	line     int // of its first line
}

// split separates a page into its prose, where code blocks become empty lines, and its
// code blocks.
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

// anchors returns the anchors that GitHub generates for the headings of a page.
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

func testsOf(source string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`).FindAllStringSubmatch(source, -1) {
		found[m[1]] = true
	}
	return found
}

// TestLinks checks that all link targets exist, including headings. If a link's text is
// the name of a test, the linked file must contain that test.
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
			_, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				t.Errorf("%s: [%s] leads to %s: %v", page, label, target, err)
				continue
			}
			if hasPart {
				parts++
				there, _ := split(read(t, file))
				eventstest.Expect(t, anchors(there)[part], "%s: [%s] leads to %s, no heading", page, label, target)
			}
			if named.MatchString(label) {
				tests++
				eventstest.Expect(t, testsOf(read(t, file))[label], "%s: there is no %s in %s", page, label, file)
			}
		}
	}
	eventstest.Expect(t, links >= 200 && tests >= 80 && parts >= 20,
		"%d links, %d to tests and %d to headings were looked at, want 200, 80 and 20 or more", links, tests, parts)
}

// TestNamesOfTests checks that a test that a page names without a link exists somewhere
// in the repository.
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
			eventstest.Expect(t, there[found], "%s names %s, want a test that exists", page, found)
		}
	}
}

// TestEachPageIsLinked checks that README links to every page.
func TestEachPageIsLinked(t *testing.T) {
	readme := read(t, "README.md")
	for _, page := range pages(t)[1:] {
		eventstest.Expect(t, strings.Contains(readme, "("+page+")"), "README does not link to %s", page)
	}
}

func TestReadmeIsShort(t *testing.T) {
	const mostLines, mostWords = 200, 1800
	text := read(t, "README.md")
	lines, words := strings.Count(text, "\n"), len(strings.Fields(text))
	eventstest.Expect(t, lines <= mostLines && words <= mostWords,
		"README has %d lines and %d words, want %d and %d: use docs", lines, words, mostLines, mostWords)
}

// TestTableCellsAreShort limits the words in a table cell; longer text belongs in a
// paragraph. Link targets do not count.
func TestTableCellsAreShort(t *testing.T) {
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
				words := len(strings.Fields(cell))
				eventstest.Expect(t, words <= most, "%s:%d: a cell has %d words: %s", page, number, words, cell)
			}
		}
	}
	eventstest.Expect(t, cells >= 500, "only %d cells were looked at, want 500 or more", cells)
}

// TestEachLogLineIsExplained checks that docs/operate.md explains each log line of level
// Warn or Error, and that the source has each line on that page. For a message in a
// variable, it takes the assignments to that name in the function or else in the package.
func TestEachLogLineIsExplained(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`(?i:logger)\.(?:Warn|Error|Check\(zap\.WarnLevel)(?:\(|, )(?:"([^"]+)"|([\w.]+))`)
	leveled := regexp.MustCompile(`zap\.(?:Warn|Error)Level, "([^"]+)"()`)
	page, all, count := read(t, "docs/operate.md"), "", 0
	explained := func(line string) {
		count++
		eventstest.Expect(t, strings.Contains(page, line), "docs/operate.md lacks the log line %q", line)
	}
	for _, room := range []string{"session", "actors", "coordinator"} {
		source := sourceOf(t, room)
		for _, function := range strings.Split(source, "\nfunc ") {
			for _, m := range append(call.FindAllStringSubmatch(function, -1), leveled.FindAllStringSubmatch(function, -1)...) {
				if m[2] == "" {
					explained(m[1])
					continue
				}
				name := m[2][strings.LastIndex(m[2], ".")+1:]
				assigned := regexp.MustCompile(`\b` + name + `\b[^"\n(]*[:+]?= [^"\n(]*"([^"]+)"`)
				found := assigned.FindAllStringSubmatch(function, -1)
				if found == nil {
					found = regexp.MustCompile(`(?:\.|const )`+assigned.String()).FindAllStringSubmatch(source, -1)
				}
				eventstest.Expect(t, found != nil, "no message is found for the variable %s in %s", m[2], room)
				for _, m := range found {
					explained(m[1])
				}
			}
		}
		all += source
	}
	eventstest.Expect(t, count >= 30, "only %d log lines were found, want 30 or more", count)
	_, tables, _ := strings.Cut(page, "## Log lines")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(tables, -1) {
		for _, m := range regexp.MustCompile("`([^`;]+)[^`]*`").FindAllStringSubmatch(row[1], -1) {
			eventstest.Expect(t, strings.Contains(all, `"`+m[1]), "nothing logs %q of docs/operate.md", m[1])
		}
	}
}

func sourceOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	eventstest.Must(t, err)
	all := ""
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			all += read(t, folder+"/"+filepath.Base(file))
		}
	}
	return all
}
