package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestGodocIsShort limits the length of coordinator's documentation, as a whole and for
// each symbol. The documentation names no type of a package that may change.
func TestGodocIsShort(t *testing.T) {
	const mostWords, mostLines = 5000, 10
	text := goCommand(t, "doc", "-all", "./coordinator")
	words := len(strings.Fields(text))
	eventstest.Expect(t, words <= mostWords,
		"go doc -all ./coordinator has %d words, want at most %d: move what is rare to docs", words, mostWords)
	for _, name := range roomsThatMayChange(text) {
		t.Errorf("an exported declaration shows %s, want no type of a package that may change", name)
	}
	for _, dir := range []string{"coordinator", "events", filepath.Join("session", "zktest")} {
		symbols := comments(t, filepath.Join("..", dir))
		eventstest.Expect(t, len(symbols) >= 10, "%s has %d exported symbols, want all", dir, len(symbols))
		for name, comment := range symbols {
			lines := len(strings.Split(strings.TrimSpace(comment), "\n"))
			eventstest.Expect(t, comment != "" && lines <= mostLines,
				"the comment of %s.%s has %d lines, want 1 to %d", dir, name, min(len(comment), lines), mostLines)
		}
	}
}

// Each name that a page qualifies with a package is exported by that package.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	exported := map[string]bool{}
	for _, room := range []string{"coordinator", "events"} {
		for name := range comments(t, filepath.Join("..", room)) {
			exported[room+"."+name] = true
		}
	}
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile(`\b(?:coordinator|events)\.[A-Z]\w*`).FindAllString(read(t, page), -1) {
			eventstest.Expect(t, exported[name], "%s names %s, want what is exported", page, name)
		}
	}
}

// TestNamesAreFew limits the number of names: on the first pages, in the output of go
// doc, and in total.
func TestNamesAreFew(t *testing.T) {
	t.Parallel()
	const mostOnPages, mostLines, mostNames = 45, 60, 100
	exported, count := map[string]bool{}, 0
	for _, room := range []string{"coordinator", filepath.Join("coordinator", "hooks"), filepath.Join("coordinator", "bridge"), "events"} {
		for name := range comments(t, filepath.Join("..", room)) {
			if strings.Contains(name, ".") {
				continue // a method
			}
			exported[filepath.Base(room)+"."+name] = true
			if room == "coordinator" || filepath.Base(room) == "hooks" { // hooks was split from coordinator
				count++
			}
		}
	}
	eventstest.Expect(t, count <= mostNames, "coordinator and hooks have %d names, want %d", count, mostNames)
	lines := strings.Count(goCommand(t, "doc", "-short", "./coordinator"), "\n")
	eventstest.Expect(t, lines >= 30 && lines <= mostLines,
		"go doc -short ./coordinator has %d lines, want 30 to %d", lines, mostLines)
	used := map[string]bool{}
	for _, page := range []string{"README.md", "docs/guide.md", "docs/tutorial.md"} {
		for _, name := range namesOn(read(t, page)) {
			if exported["coordinator."+name] || exported["events."+name] || exported["bridge."+name] {
				used[name] = true
			}
		}
	}
	eventstest.Expect(t, len(used) >= 20 && len(used) <= mostOnPages,
		"the first pages use %d names, want 20 to %d: %q", len(used), mostOnPages, slices.Sorted(maps.Keys(used)))
}

// namesOn returns the names on a page that may come from our packages: qualified names,
// and words in backticks.
func namesOn(page string) (all []string) {
	prose, _ := split(page)
	for _, m := range regexp.MustCompile(`\b(?:coordinator|events|bridge)\.([A-Z]\w*)`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(prose, -1) {
		for _, m := range regexp.MustCompile(`(?:^|[^\w.])([A-Z]\w*)`).FindAllStringSubmatch(span, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// roomsThatMayChange returns the names from packages without a compatibility promise in
// the declarations of `go doc -all`. The value of a constant or a variable does not
// count.
func roomsThatMayChange(text string) []string {
	declarations := regexp.MustCompile(`(?m)//.*|^(    .*|\t?(const |var )?\w+ += .*)$`).ReplaceAllString(text, "") // without comments
	return regexp.MustCompile(`\b(session|actors|recipes)\.[A-Z]\w*`).FindAllString(declarations, -1)
}

// comments returns the doc comments of a package's exported types, functions, methods,
// constants and variables. Names in a group without their own comment get the group's.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(name string, own, groups *ast.CommentGroup) {
		if own == nil {
			own = groups
		}
		if token.IsExported(name) {
			found[name] = own.Text()
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	eventstest.Must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		eventstest.Must(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name, d.Doc, nil)
				} else if of := strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"); d.Name.IsExported() {
					add(of+"."+d.Name.Name, d.Doc, nil)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name.Name, spec.Doc, d.Doc)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							add(name.Name, spec.Doc, d.Doc)
						}
					}
				}
			}
		}
	}
	return found
}
