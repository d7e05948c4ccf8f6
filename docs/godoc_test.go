package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// roomsThatMayChange returns the names in the declarations of `go doc -all` that are of packages without a promise. The value of a
// constant or a variable is no declaration of its type.
func roomsThatMayChange(text string) []string {
	declarations := regexp.MustCompile(`(?m)//.*|^(    .*|\t?(const |var )?\w+ += .*)$`).ReplaceAllString(text, "") // but for comments
	return regexp.MustCompile(`\b(session|actors|recipes)\.[A-Z]\w*`).FindAllString(declarations, -1)
}

// comments returns those of the exported types, functions and methods, and of constants and variables or the group that they are in.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	pkg, err := doc.NewFromFiles(files, parsed, dir)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	functions := func(of string, all []*doc.Func) {
		for _, f := range all {
			found[of+f.Name] = f.Doc
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			if v.Doc != "" {
				found[strings.Join(v.Names, ", ")] = v.Doc
			}
			for _, spec := range v.Decl.Specs {
				if spec, ok := spec.(*ast.ValueSpec); ok && (v.Doc == "" || spec.Doc != nil) {
					found[spec.Names[0].Name] = spec.Doc.Text()
				}
			}
		}
	}
	functions("", pkg.Funcs)
	values(pkg.Consts)
	values(pkg.Vars)
	for _, typ := range pkg.Types {
		found[typ.Name] = typ.Doc
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
		values(typ.Consts)
		values(typ.Vars)
	}
	return found
}
