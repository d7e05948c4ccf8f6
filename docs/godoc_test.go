package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestGodocIsShort: what a user reads of the front door at one go, and of each symbol. It names no type of a package that may change.
func TestGodocIsShort(t *testing.T) {
	const mostWords, mostLines = 5000, 10
	command := exec.CommandContext(t.Context(), "go", "doc", "-all", ".")
	command.Dir = filepath.Join("..", "coordinator")
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("go doc: %v\n%s", err, text)
	}
	if words := len(strings.Fields(string(text))); words > mostWords {
		t.Errorf("go doc -all ./coordinator has %d words, want at most %d: move what is rare to docs", words, mostWords)
	}
	for _, name := range roomsThatMayChange(string(text)) {
		t.Errorf("an exported declaration shows %s, want no type of a package that may change", name)
	}
	for _, dir := range []string{"coordinator", "events", filepath.Join("session", "zktest")} {
		symbols := comments(t, filepath.Join("..", dir))
		if len(symbols) < 10 {
			t.Errorf("%s has %d exported symbols, want all of them looked at", dir, len(symbols))
		}
		for name, comment := range symbols {
			if lines := len(strings.Split(strings.TrimSpace(comment), "\n")); comment == "" || lines > mostLines {
				t.Errorf("the comment of %s.%s has %d lines, want 1 to %d", filepath.Base(dir), name, min(len(comment), lines), mostLines)
			}
		}
	}
}

// Each name of a package that a page uses is exported by it.
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
			if !exported[name] {
				t.Errorf("%s names %s, want what is exported", page, name)
			}
		}
	}
}

// roomsThatMayChange returns the names in the declarations of `go doc -all` that are of packages without a promise. The value of a
// constant or a variable is no declaration of its type.
func roomsThatMayChange(text string) []string {
	declarations := regexp.MustCompile(`(?m)//.*|^(    .*|\t?(const |var )?\w+ += .*)$`).ReplaceAllString(text, "") // but for comments
	return regexp.MustCompile(`\b(session|actors|recipes)\.[A-Z]\w*`).FindAllString(declarations, -1)
}

// comments returns those of the exported types, functions, methods, constants and variables of a package. A group's comment is that of
// each name in it that has none.
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
