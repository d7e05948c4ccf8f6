package mutants

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Tree is the module's source on disk.
type Tree struct{ Root string }

func (t Tree) on(name string) string { return filepath.Join(t.Root, filepath.FromSlash(name)) }

func (t Tree) read(name string) (string, error) {
	text, err := os.ReadFile(t.on(name))
	return string(text), err
}

// Switch is the environment variable that selects a bug in a woven binary, by its number
// from 1. Without it, no bug is active.
const Switch = "ZKGRANT_SEEDED_BUG"

// Reached is the environment variable with the name of a file, to which a woven binary
// appends the number of each bug that it reaches, once.
const Reached = "ZKGRANT_SEEDED_REACHED"

// seeded is the function in the woven source that reports whether a bug is selected. Its
// file has the same name, in lower case.
const seeded = "zkgrantSeeded"

// chooser is the source of that file, as a format string.
const chooser = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	zkgrantChosen, _ = strconv.Atoi(os.Getenv(%q))
	zkgrantInto      = os.Getenv(%q)
	zkgrantReached   [%d]atomic.Bool // no map: to look into it would allocate, and some tests count allocations
)

func %s(bug int) bool { return bug == zkgrantChosen || zkgrantInto != "" && zkgrantNote(bug) }

func zkgrantNote(bug int) bool {
	if !zkgrantReached[bug].Swap(true) {
		file, err := os.OpenFile(zkgrantInto, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer file.Close()
		if _, err := fmt.Fprintln(file, bug); err != nil {
			panic(err)
		}
	}
	return false
}
`

// body is a function's body with a bug in it.
type body struct {
	at     int // offset of the original body in the original file
	bug    int // number of the bug
	text   string
	result bool // whether the function has results
}

// Weave returns the library's source with all bugs in it: a map from file name to text,
// for each file that differs. A function that a bug changes begins with the changed body,
// which runs if that bug is selected:
//
//	if zkgrantSeeded(17) { … }
//
// So one build serves all bugs, and production code needs no hooks. A bug can change only
// function bodies.
func (t Tree) Weave(bugs []*Bug) (map[string]string, error) {
	bodies := map[string][]body{}
	var misfits []error
	for i, b := range bugs {
		for _, file := range b.Files() {
			changed, err := t.bodies(b, i+1, file)
			if err != nil {
				misfits = append(misfits, fmt.Errorf("%s: %w", b.Name, err))
			}
			bodies[file] = append(bodies[file], changed...)
		}
	}
	if len(misfits) > 0 {
		return nil, errors.Join(misfits...)
	}
	woven := map[string]string{}
	for file, all := range bodies {
		text, err := t.read(file)
		if err != nil {
			return nil, err
		}
		woven[file] = insert(text, all)
		folder := path.Dir(file)
		woven[path.Join(folder, strings.ToLower(seeded)+".go")] = fmt.Sprintf(chooser, path.Base(folder), Switch, Reached, len(bugs)+1, seeded)
	}
	return woven, nil
}

func (t Tree) bodies(b *Bug, number int, file string) ([]body, error) {
	text, err := t.read(file)
	if err != nil {
		return nil, err
	}
	changed, err := b.Apply(file, text)
	if err != nil {
		return nil, err
	}
	sound, err := functions(file, text)
	if err != nil {
		return nil, err
	}
	buggy, err := functions(file, changed)
	if err != nil {
		return nil, err
	}
	if len(sound) != len(buggy) {
		return nil, fmt.Errorf("%s has %d declarations and %d with the bug", file, len(sound), len(buggy))
	}
	var found []body
	for i, s := range sound {
		switch {
		case s.head != buggy[i].head:
			return nil, fmt.Errorf("%s: more than a function's body is changed:\n%s", file, buggy[i].head)
		case s.body != buggy[i].body:
			found = append(found, body{s.at, number, buggy[i].body, s.result})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: nothing is changed", file)
	}
	return found, nil
}

// declaration is a top-level declaration. If it is not a function, head is all of it.
type declaration struct {
	head, body string
	at         int // offset of the body in the file
	result     bool
}

func functions(file, text string) ([]declaration, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	var all []declaration
	for _, decl := range syntax.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			all = append(all, declaration{head: text[offset(decl.Pos()):offset(decl.End())]})
			continue
		}
		begin, end := offset(f.Body.Lbrace)+1, offset(f.Body.Rbrace)
		all = append(all, declaration{text[offset(f.Pos()):begin], text[begin:end], begin, f.Type.Results != nil})
	}
	return all, nil
}

func insert(text string, bodies []body) string {
	slices.SortStableFunc(bodies, func(a, b body) int { return a.at - b.at })
	var out strings.Builder
	at := 0
	for _, b := range bodies {
		out.WriteString(text[at:b.at])
		at = b.at
		fmt.Fprintf(&out, "\nif %s(%d) {%s\n", seeded, b.bug, b.text)
		if !b.result {
			out.WriteString("return\n")
		}
		out.WriteString("}\n")
	}
	out.WriteString(text[at:])
	return out.String()
}

// Tests returns the tests in a package's folder, except TestMain, and the file of each.
func (t Tree) Tests(pkg string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(t.on(pkg), "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests := map[string]string{}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests[f.Name.Name] = path.Join(pkg, filepath.Base(file))
			}
		}
	}
	return tests, nil
}
