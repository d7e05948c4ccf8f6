package moving_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/moving.md"

// words is a text without its line breaks and indentation, in which the page and the code may differ.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// read returns the text of the files.
func read(t *testing.T, files ...string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteString("\n")
	}
	return all.String()
}

// TestPageShowsCodeThatRuns: each block of Go on the page is word for word in the files of this folder, where it is compiled and run.
// Its first line names its library. The blocks for etcd are only parsed: its client is no dependency of this module.
func TestPageShowsCodeThatRuns(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code, text := words(read(t, files...)), read(t, page)
	count := map[string]int{}
	blocks := regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```$").FindAllStringSubmatch(text, -1)
	if fences := strings.Count(text, "```go"); fences != len(blocks) {
		t.Errorf("%d blocks of Go begin and %d end, want as many", fences, len(blocks))
	}
	for _, m := range blocks {
		block := strings.TrimSpace(m[1])
		whose, _, _ := strings.Cut(strings.TrimPrefix(block, "// "), "\n")
		count[whose]++
		switch whose {
		case "zkgrant", "go-zookeeper":
			if !strings.Contains(code, words(block)) {
				t.Errorf("this is on the page but not in the code:\n%s", block)
			}
		case "etcd":
			if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() error {\n"+block+"\n}", 0); err != nil {
				t.Errorf("%v in:\n%s", err, block)
			}
		default:
			t.Errorf("a block on the page names no library in its first line:\n%s", block)
		}
	}
	t.Log("blocks of Go:", count)
	if count["zkgrant"] < 5 || count["go-zookeeper"] == 0 || count["etcd"] == 0 {
		t.Errorf("the page has the blocks of Go %v, want 5 of zkgrant's or more and some of each library", count)
	}
	// The other way round: what is compiled for the page is on the page.
	if in := strings.Count(code, "{ "+"// zkgrant "); in != count["zkgrant"] {
		t.Errorf("%d blocks of zkgrant's are here and %d on the page, want as many", in, count["zkgrant"])
	}
}

// TestPageNamesWhatExists: each name of a package on the page is exported by it.
func TestPageNamesWhatExists(t *testing.T) {
	text := read(t, page)
	exported := map[string]bool{}
	for _, folder := range []string{"coordinator", "events"} {
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range declared(syntax) {
				exported[folder+"."+name] = true
			}
		}
	}
	names := regexp.MustCompile(`\b(?:coordinator|events)\.[A-Z]\w*`).FindAllString(text, -1)
	for _, name := range names {
		if !exported[name] {
			t.Errorf("the page names %s, want what is exported", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d names were looked at, want 20 or more", len(names))
	}
}

// declared lists a file's top-level declarations: functions, but not methods, types, constants and variables.
func declared(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// TestPageNamesCallsThatCompile: each call that the first tables name as ours is in the files of this folder.
func TestPageNamesCallsThatCompile(t *testing.T) {
	code := words(read(t, "calls_test.go"))
	tables, _, found := strings.Cut(read(t, page), "## Side by side")
	if !found {
		t.Fatal("the page has no part Side by side, want it behind the tables")
	}
	count := 0
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+\\([^`]*)`").FindAllStringSubmatch(cells[2], -1) {
			count++
			if !strings.Contains(code, m[1]) {
				t.Errorf("the page names %s, want a call that is compiled", m[1])
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d calls were looked at, want 30 or more", count)
	}
}
