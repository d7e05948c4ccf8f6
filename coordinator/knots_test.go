package coordinator_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mostKnotLines = 1500 // of files that all use each other
	mostFileLines = 600
)

// knot is a set of files of one package in which each uses each other, directly or by way of others of the set. They have to
// be understood together. A file that is in no circle is a knot of one.
type knot struct {
	files []string
	lines int
}

// listedPackage is what `go list` says of a package.
type listedPackage struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Module                             *struct{ Path string }
}

// TestNoKnotOfFilesIsTooLarge bounds what has to be read together, and the files, those of tests too. With -v it prints the largest knot of each package.
func TestNoKnotOfFilesIsTooLarge(t *testing.T) {
	packages := library(t)
	files := token.NewFileSet()
	compiled := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		for _, p := range packages {
			if p.ImportPath == path {
				return os.Open(p.Export)
			}
		}
		return nil, errors.New("go list does not know it")
	})
	checked := 0
	for _, p := range packages {
		if p.Module == nil || p.Module.Path != module {
			continue
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
			if lines := files.File(file.Pos()).LineCount(); lines > mostFileLines {
				t.Errorf("%s/%s has %d lines, want at most %d", p.ImportPath, name, lines, mostFileLines)
			}
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); lines > mostFileLines {
				t.Errorf("%s/%s has %d lines, want at most %d", p.ImportPath, name, lines, mostFileLines)
			}
		}
		found, err := knots(files, parsed, compiled)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		t.Logf("%5d lines in %2d files: %s", found[0].lines, len(found[0].files), p.ImportPath)
		if found[0].lines > mostKnotLines {
			t.Errorf("%s has a knot of %d lines, want at most %d: %v", p.ImportPath, found[0].lines, mostKnotLines, found[0].files)
		}
	}
	if checked < 5 {
		t.Errorf("%d packages were looked at, want the five rooms of the library", checked)
	}
}

// TestKnotsAreSeen: uses of types, functions, methods, and fields count, those through an interface as uses of the interface.
func TestKnotsAreSeen(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string // f0.go, f1.go, …
		want  string
	}{
		{"none", []string{"func a() {}", "func b() { a() }"}, "f0.go, f1.go"},
		{"two", []string{"func a() { b() }", "func b() { a() }"}, "f0.go+f1.go"},
		{"a circle of three and one apart", []string{"func a() { b() }", "func b() { c() }", "func c() { a() }", "func d() { a() }"}, "f0.go+f1.go+f2.go, f3.go"},
		{"a method", []string{"type t struct{}\nfunc a() { t{}.b() }", "func (t) b() {}"}, "f0.go+f1.go"},
		{"a field", []string{"type t struct { u }\nfunc a() {}", "type u struct { f int }\nfunc b() { a() }"}, "f0.go+f1.go"},
		{"an interface", []string{"type i interface { b() }\nfunc a(x i) { x.b() }", "type t struct{}\nfunc (t) b() {}"}, "f0.go, f1.go"},
		{"a generic type", []string{"type g[T any] struct{}\nfunc a() { g[int]{}.b() }", "func (g[T]) b() {}"}, "f0.go+f1.go"},
		{"a local name", []string{"func a() { b := 1; _ = b }", "func b() { a() }"}, "f0.go, f1.go"},
	} {
		files := token.NewFileSet()
		var parsed []*ast.File
		for i, source := range test.files {
			file, err := parser.ParseFile(files, fmt.Sprintf("f%d.go", i), "package p\n"+source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		found, err := knots(files, parsed, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range found {
			got = append(got, strings.Join(k.files, "+"))
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: knots %q, want %q", test.name, got, test.want)
		}
	}
}

// library lists the packages of the library, test support aside, and everything that they import, with compiled export data.
func library(t *testing.T) []listedPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,Module",
		"./coordinator")
	command.Dir = moduleFolder(t)
	var complaint strings.Builder
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaint.String())
	}
	var packages []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// knots returns the strongly connected components of the files of a package, the largest first. A file has an edge to
// another when one of its declarations names something that the other declares.
func knots(files *token.FileSet, parsed []*ast.File, imports types.Importer) ([]knot, error) {
	uses := make(map[*ast.Ident]types.Object)
	config := types.Config{Importer: imports}
	pkg, err := config.Check("p", files, parsed, &types.Info{Uses: uses})
	if err != nil {
		return nil, fmt.Errorf("checking the types: %w", err)
	}
	edges := make(map[*token.File]map[*token.File]bool)
	for name, object := range uses {
		from, to := files.File(name.Pos()), files.File(object.Pos())
		if object.Pkg() != pkg || from == to {
			continue
		}
		if edges[from] == nil {
			edges[from] = make(map[*token.File]bool)
		}
		edges[from][to] = true
	}
	reach := make(map[*token.File]map[*token.File]bool)
	for _, file := range parsed {
		from := files.File(file.Pos())
		reach[from] = map[*token.File]bool{from: true}
		for todo := []*token.File{from}; len(todo) > 0; {
			next := todo[0]
			todo = todo[1:]
			for to := range edges[next] {
				if !reach[from][to] {
					reach[from][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	var found []knot
	placed := make(map[*token.File]bool)
	for _, file := range parsed {
		of := files.File(file.Pos())
		if placed[of] {
			continue
		}
		var k knot
		for to := range reach[of] {
			if reach[to][of] {
				placed[to] = true
				k.files = append(k.files, filepath.Base(to.Name()))
				k.lines += to.LineCount()
			}
		}
		slices.Sort(k.files)
		found = append(found, k)
	}
	slices.SortFunc(found, func(a, b knot) int { return cmp.Compare(b.lines, a.lines) })
	return found, nil
}
