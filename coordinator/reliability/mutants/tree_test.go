package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/zkgrant/zkgrant"

// rooms are the folders whose source the mutants change and whose tests find them.
func rooms() []string { return []string{"events", "recipes", "actors", "session", "coordinator"} }

// tree is the module as it is on the disk.
type tree struct {
	root  string
	files []string // every Go file of the rooms, by its name relative to root
}

// readTree opens every file of the rooms. The names alone would do, but what other
// processes read the go command does not know of: it would give the result of an
// earlier run out again.
func readTree(tb testing.TB) tree {
	tb.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		tb.Fatal(err)
	}
	t := tree{root: root}
	if mod := t.read(tb, "go.mod"); !strings.Contains(mod, "module "+module+"\n") {
		tb.Fatalf("%s is not the folder of %s", root, module)
	}
	for _, room := range rooms() {
		err := filepath.WalkDir(filepath.Join(root, room), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
				return err
			}
			name, err := filepath.Rel(root, file)
			t.files = append(t.files, filepath.ToSlash(name))
			if _, unread := os.ReadFile(file); unread != nil {
				return unread
			}
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return t
}

// on returns where on the disk a file is whose name is relative to the module's folder.
func (t tree) on(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

func (t tree) read(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(t.on(name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// changed returns the text of the files that the mutant changes, by name.
func (t tree) changed(tb testing.TB, m mutant) map[string]string {
	tb.Helper()
	texts := map[string]string{}
	for _, name := range m.files() {
		text, err := m.apply(name, t.read(tb, name))
		if err != nil {
			tb.Fatal(err)
		}
		texts[name] = text
	}
	return texts
}

// tests returns the names of the test functions of a package, each with its file.
func (t tree) tests(tb testing.TB, pkg string) map[string]string {
	tb.Helper()
	names := map[string]string{}
	for _, file := range t.files {
		if path.Dir(file) != pkg || !strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), t.on(file), nil, parser.SkipObjectResolution)
		if err != nil {
			tb.Fatal(err)
		}
		for _, decl := range syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = file
			}
		}
	}
	return names
}

// compiler checks changed packages as the compiler does, without building anything.
type compiler struct {
	tree     tree
	packages map[string]listed // by import path
}

// listed is what the go command says about a package.
type listed struct {
	ImportPath string
	Export     string // the file with what others need to know of it
	GoFiles    []string
}

func newCompiler(tb testing.TB, t tree) compiler {
	tb.Helper()
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Export,GoFiles"}
	for _, room := range rooms() {
		args = append(args, "./"+room)
	}
	cmd := exec.CommandContext(tb.Context(), "go", args...)
	cmd.Dir = t.root
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("go list: %v\n%s", err, complaint(err))
	}
	c := compiler{tree: t, packages: map[string]listed{}}
	for from := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := from.Decode(&p); {
		case errors.Is(err, io.EOF):
			return c
		case err != nil:
			tb.Fatalf("go list: %v", err)
		}
		c.packages[p.ImportPath] = p
	}
}

// complaint is what a command has written before it failed.
func complaint(err error) string {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return string(failed.Stderr)
	}
	return ""
}

// check says why the package of the changed files would not compile, if so. The
// names of the files are relative to the module's folder.
func (c compiler) check(changed map[string]string) error {
	for _, pkg := range folders(changed) {
		p, ok := c.packages[module+"/"+pkg]
		if !ok {
			return fmt.Errorf("%s is none of the packages", pkg)
		}
		positions := token.NewFileSet()
		var files []*ast.File
		used := 0
		for _, base := range p.GoFiles {
			var source any // nil: what is on the disk
			if text, ok := changed[pkg+"/"+base]; ok {
				source = text
				used++
			}
			file, err := parser.ParseFile(positions, c.tree.on(pkg+"/"+base), source, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		if want := countIn(changed, pkg); used != want {
			return fmt.Errorf("%d of %d changed files of %s are not built on this platform", want-used, want, pkg)
		}
		open := func(name string) (io.ReadCloser, error) { return os.Open(c.packages[name].Export) }
		cfg := types.Config{Importer: importer.ForCompiler(positions, "gc", open)}
		if _, err := cfg.Check(module+"/"+pkg, positions, files, nil); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the folders of the files, in order.
func folders(files map[string]string) []string {
	dirs := map[string]bool{}
	for file := range files {
		dirs[path.Dir(file)] = true
	}
	return slices.Sorted(maps.Keys(dirs))
}

func countIn(files map[string]string, folder string) int {
	n := 0
	for file := range files {
		if path.Dir(file) == folder {
			n++
		}
	}
	return n
}
