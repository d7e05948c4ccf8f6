package coordinator_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module    = "github.com/zkgrant/zkgrant"
	zkModule  = "github.com/go-zookeeper/zk"
	zapModule = "go.uber.org/zap"
	anything  = "*" // in a list of the table below
)

// room is one floor of the house: a folder with everything below it that is no room itself, and the rules for its files, except
// tests.
type room struct {
	folder  string
	rooms   []string // it may import of ours, besides itself
	modules []string // it may import of others
	zkNames []string // it may name of package zk; nil for all
	pure    bool     // no goroutine, channel, clock, or anything else but its arguments
	support bool     // test support: it may use anything, and only tests and other test support may import it
}

// rooms is the picture of the design as a table. Imports point to the left of
//
//	events <- recipes <- actors <- session <- coordinator <- examples, bench
//
// and nothing but these folders holds Go code, modules of their own aside.
var rooms = []room{
	{folder: "events", pure: true},
	{folder: "recipes", rooms: []string{"events"}, pure: true},
	{folder: "actors", rooms: []string{"events", "recipes"}, modules: []string{zapModule}},
	{
		folder: "session", modules: []string{zkModule, zapModule},
		rooms: []string{"events", "recipes", "actors", "session/internal/opcode", "session/internal/zkerr", "session/internal/lease", "session/internal/pace", "session/internal/watch", "session/internal/wire", "session/sasl"},
	},
	{folder: "session/sasl", rooms: []string{"session/internal/digestmd5"}},
	{folder: "session/internal/digestmd5"},
	{folder: "session/internal/opcode"},
	{folder: "session/internal/pace"},
	{folder: "session/internal/watch"},
	{folder: "session/internal/zkerr", modules: []string{zkModule}},
	{folder: "session/internal/wire", rooms: []string{"session/internal/opcode", "session/internal/zkerr", "session/sasl"}, modules: []string{zkModule}},
	{folder: "session/internal/lease", rooms: []string{"session/internal/opcode", "session/internal/zkerr"}},
	{folder: "session/zktest", rooms: []string{"events", "recipes", "actors", "session", "session/internal/digestmd5"}, modules: []string{zkModule, zapModule}},
	{folder: "session/zktest/faultnet", rooms: []string{"session/zktest"}},
	{folder: "session/zktest/ensemble", rooms: []string{"events", "recipes", "actors", "session", "session/zktest"}, modules: []string{zkModule, zapModule}},
	{
		folder: "coordinator", rooms: []string{"events", "recipes", "actors", "session", "session/sasl"}, modules: []string{zkModule, zapModule},
		zkNames: []string{"ACL", "CheckVersionRequest", "MultiResponse"}, // those its own signatures show
	},
	{folder: "coordinator/board", rooms: []string{"events", "session", "coordinator"}},
	{folder: "coordinator/bridge", rooms: []string{"events", "coordinator"}},
	{folder: "coordinator/telemetry/internal/words", rooms: []string{"events", "coordinator"}, modules: []string{zkModule}},
	// Test support.
	{folder: "actors/internal/actorstest", support: true},
	{folder: "coordinator/internal/coordtest", support: true},
	{folder: "coordinator/reliability", support: true},
	{folder: "events/eventstest", support: true},
	{folder: "examples/internal/stagetest", support: true},
	{folder: "recipes/internal/searchtest", support: true},
	{folder: "session/internal/sessiontest", support: true},
	{folder: "examples", rooms: []string{anything}, modules: []string{anything}},
}

// modules of their own are in these folders. They are no rooms: nothing imports them, so they may import anything.
var modules = []string{
	"bench", "cmd/zkgrant", "coordinator/bridge/gocronlock", "coordinator/telemetry/zkotel", "coordinator/telemetry/zkprom",
	"session/sasl/gssapi",
}

// impurePackages of the standard library, with everything below them, are closed to the pure rooms.
var impurePackages = []string{
	"C", "context", "crypto/rand", "log", "math/rand", "net", "os", "plugin", "runtime", "sync", "syscall", "testing", "unsafe",
}

// clockFunctions of package time tell the time or wait for it. Its types are open to the pure rooms.
var clockFunctions = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// roomOf returns the room of a folder of the module, or nil.
func roomOf(folder string) *room {
	var found *room
	for i := range rooms {
		if r := &rooms[i]; within(folder, r.folder) && (found == nil || len(r.folder) > len(found.folder)) {
			found = r
		}
	}
	return found
}

// within reports whether the slash-separated path is root or below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func anyWithin(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return root == anything || within(path, root) })
}

// violations parses a file and lists what breaks the rules of its room. The file's name is relative to the module's folder.
func violations(name, source string) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the syntax: %w", err)
	}
	var found []string
	report := func(at ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(at.Pos()), fmt.Sprintf(format, args...)))
	}
	r := roomOf(path.Dir(name))
	if r == nil {
		report(file.Name, "this folder is no room of the house")
		return found, nil
	}

	imported := make(map[string]string) // from the name in this file to the path
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading an import: %w", err)
		}
		local := path.Base(target)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = target
		if wrong := r.wrongImport(target); wrong != "" {
			report(spec, "%s must not import %s: %s", r.folder, target, wrong)
		}
		if local == "." && (r.pure || r.zkNames != nil) {
			report(spec, "%s must not dot-import %s: its uses could not be told from the room's own names", r.folder, target)
		}
	}

	ast.Inspect(file, func(n ast.Node) bool {
		if use, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := use.X.(*ast.Ident); ok {
				switch target := imported[x.Name]; {
				case r.pure && target == "time" && slices.Contains(clockFunctions, use.Sel.Name):
					report(use, "%s is pure and must not use time.%s", r.folder, use.Sel.Name)
				case r.zkNames != nil && target == zkModule && !slices.Contains(r.zkNames, use.Sel.Name):
					report(use, "%s may name only %q of package zk, not %s", r.folder, r.zkNames, use.Sel.Name)
				}
			}
		}
		if r.pure {
			if what := impure(n); what != "" {
				report(n, "%s is pure and must not have a %s", r.folder, what)
			}
		}
		return true
	})
	return found, nil
}

// wrongImport says why the room must not import target, or nothing.
func (r *room) wrongImport(target string) string {
	switch {
	case within(target, module):
		other := roomOf(strings.TrimPrefix(strings.TrimPrefix(target, module), "/"))
		switch {
		case other == nil:
			return "it is no room of the house"
		case r.support:
			return ""
		case other.support:
			return "it is for tests only"
		case other.folder != r.folder && !slices.Contains(r.rooms, other.folder) && !slices.Contains(r.rooms, anything):
			return "it is not below"
		}
	case strings.Contains(strings.Split(target, "/")[0], "."): // what the go command takes for a module's path
		if !r.support && !anyWithin(target, r.modules) {
			return "not among the modules of the room"
		}
	case r.pure && anyWithin(target, impurePackages):
		return "the room is pure"
	}
	return ""
}

// impure names the construct that n is if it lets a program do two things at once, or nothing.
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.ChanType:
		return "channel type"
	case *ast.SelectStmt:
		return "select statement"
	case *ast.SendStmt:
		return "send"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receive"
		}
	}
	return ""
}

// moduleFolder is where go.mod is.
func moduleFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// sources calls visit with every file of the module that is compiled into a program, on whatever system: the name
// relative to the module's folder, with slashes.
func sources(root string, visit func(name string) error) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file == root {
				return nil
			}
			// The go command does not look into these either.
			if base := entry.Name(); base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" {
				return filepath.SkipDir
			}
			folder, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			if slices.Contains(modules, filepath.ToSlash(folder)) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name))
	})
}

// TestArchitecture holds every file of the module to the rules of its room.
func TestArchitecture(t *testing.T) {
	root := moduleFolder(t)
	seen := make(map[string]int)
	err := sources(root, func(name string) error {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		found, err := violations(name, string(source))
		if err != nil {
			return err
		}
		for _, violation := range found {
			t.Error(violation)
		}
		if r := roomOf(path.Dir(name)); r != nil {
			seen[r.folder]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A walk that sees nothing finds nothing wrong.
	for _, r := range rooms {
		if seen[r.folder] == 0 {
			t.Errorf("no source file of %s was looked at", r.folder)
		}
	}
}

// TestArchitectureSeesViolations feeds the check with one violation at a time.
func TestArchitectureSeesViolations(t *testing.T) {
	imports := func(target string) string { return "package p\nimport _ " + strconv.Quote(target) }
	body := func(code string) string { return "package p\nfunc f() {\n" + code + "\n}" }
	type check struct{ name, source, want string } // want is part of the one report, or empty for none
	tests := []check{
		// Direction.
		{"events/a.go", imports(module + "/recipes"), "not below"},
		{"recipes/a.go", imports(module + "/actors"), "not below"},
		{"recipes/sub/a.go", imports(module + "/session"), "not below"},
		{"actors/a.go", imports(module + "/session"), "not below"},
		{"session/a.go", imports(module + "/coordinator"), "not below"},
		{"session/a.go", imports(module + "/session/zktest"), "not below"},
		{"session/zktest/a.go", imports(module + "/coordinator"), "not below"},
		{"session/zktest/a.go", imports(module + "/session/zktest/ensemble"), "not below"},
		{"session/zktest/ensemble/a.go", imports(module + "/coordinator"), "not below"},
		{"coordinator/a.go", imports(module + "/session/zktest"), "not below"},
		{"coordinator/a.go", imports(module + "/session/zktest/ensemble"), "not below"},
		{"coordinator/a.go", imports(module + "/examples/quickstart"), "not below"},
		{"coordinator/a.go", imports(module + "/bench"), "no room"},
		{"events/a.go", imports(module), "no room"},
		{"a.go", "package p", "no room"},
		{"util/a.go", "package p", "no room"},
		{"eventsource/a.go", "package p", "no room"},

		// Test support.
		{"events/a.go", imports(module + "/events/eventstest"), "tests only"},
		{"coordinator/a.go", imports(module + "/coordinator/reliability"), "tests only"},
		{"examples/quickstart/a.go", imports(module + "/events/eventstest"), "tests only"},
		{"events/eventstest/a.go", imports("testing"), ""},
		{"events/eventstest/a.go", imports("go.uber.org/goleak"), ""},
		{"coordinator/reliability/sub/a.go", imports(module + "/events/eventstest"), ""},

		{"recipes/a.go", imports(module + "/events"), ""},
		{"recipes/a.go", imports(module + "/recipes/sub"), ""},
		{"actors/a.go", imports(module + "/recipes"), ""},
		{"session/a.go", imports(module + "/actors"), ""},
		{"session/zktest/a.go", imports(module + "/session"), ""},
		{"session/zktest/ensemble/a.go", imports(module + "/session/zktest"), ""},
		{"coordinator/a.go", imports(module + "/session"), ""},
		{"examples/quickstart/a.go", imports(module + "/session/zktest"), ""},
		{"examples/quickstart/a.go", imports(module + "/coordinator"), ""},

		// Modules of others.
		{"events/a.go", imports("go.uber.org/zap"), "not among the modules"},
		{"recipes/a.go", imports(zkModule), "not among the modules"},
		{"actors/a.go", imports(zkModule), "not among the modules"},
		{"session/a.go", imports("go.uber.org/goleak"), "not among the modules"},
		{"session/a.go", imports("go.uber.org/zapper"), "not among the modules"},
		{"coordinator/a.go", imports("pgregory.net/rapid"), "not among the modules"},
		{"actors/a.go", imports("go.uber.org/zap/zapcore"), ""},
		{"session/a.go", imports(zkModule), ""},
		{"examples/quickstart/a.go", imports("example.com/whatever"), ""},

		// What the front door shows of package zk.
		{"coordinator/a.go", "package p\nimport \"" + zkModule + "\"\nvar _ zk.Conn", "may name only"},
		{"coordinator/a.go", "package p\nimport other \"" + zkModule + "\"\nvar _ = other.Connect", "may name only"},
		{"coordinator/a.go", "package p\nimport . \"" + zkModule + "\"", "dot-import"},
		{"coordinator/a.go", "package p\nimport \"" + zkModule + "\"\nvar _ []zk.ACL", ""},
		{"session/a.go", "package p\nimport \"" + zkModule + "\"\nvar _ zk.Conn", ""},

		// Purity.
		{"events/a.go", body("go f()"), "go statement"},
		{"recipes/a.go", body("go f()"), "go statement"},
		{"recipes/sub/a.go", body("go f()"), "go statement"},
		{"recipes/a.go", "package p\ntype t struct { c <-chan int }", "channel type"},
		{"recipes/a.go", body("_ = make(chan int)"), "channel type"},
		{"recipes/a.go", body("select {}"), "select statement"},
		{"recipes/a.go", body("c <- 1"), "send"},
		{"recipes/a.go", body("<-c"), "receive"},
		{"recipes/a.go", "package p\nimport \"time\"\nvar _ = time.Now()", "time.Now"},
		{"recipes/a.go", "package p\nimport \"time\"\nvar now = time.Now", "time.Now"},
		{"recipes/a.go", "package p\nimport clock \"time\"\nvar _ = clock.Since", "time.Since"},
		{"recipes/a.go", "package p\nimport . \"time\"", "dot-import"},
		{"events/a.go", "package p\nimport \"time\"\ntype t struct { at time.Time; after time.Duration }", ""},
		{"events/a.go", "package p\nimport \"time\"\nfunc f(a, b time.Time) bool { return a.After(b) }", ""},
		{"events/a.go", body("_ = -1; _ = !true"), ""},
		{"actors/a.go", body("go f(); select {}"), ""},
	}
	for _, function := range clockFunctions {
		tests = append(tests, check{"events/a.go", "package p\nimport \"time\"\nvar _ = time." + function, "time." + function})
	}
	for _, target := range []string{
		"sync", "sync/atomic", "net", "net/http", "os", "os/exec", "context", "math/rand", "math/rand/v2", "crypto/rand",
		"runtime", "runtime/debug", "unsafe", "syscall", "log/slog", "C",
	} {
		tests = append(tests, check{"recipes/a.go", imports(target), "pure"}, check{"actors/a.go", imports(target), ""})
	}
	for _, target := range []string{"fmt", "errors", "strings", "math", "time", "cmp", "slices", "iter"} {
		tests = append(tests, check{"events/a.go", imports(target), ""})
	}

	for _, test := range tests {
		found, err := violations(test.name, test.source)
		switch {
		case err != nil:
			t.Errorf("%s with\n%s\n%v", test.name, test.source, err)
		case test.want == "" && len(found) > 0:
			t.Errorf("%s with\n%s\nis reported: %q", test.name, test.source, found)
		case test.want != "" && (len(found) != 1 || !strings.Contains(found[0], test.want)):
			t.Errorf("%s with\n%s\nreports %q, want one with %q", test.name, test.source, found, test.want)
		}
	}

	if _, err := violations("events/a.go", "package"); err == nil {
		t.Error("a file that is not Go passes")
	}
}

// TestSourcesAreFound walks a made-up module: a file that the walk passes over is held to no rule.
func TestSourcesAreFound(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"go.mod", "events/a.go", "events/a_windows.go", "events/a_test.go", "recipes/deep/er/b.go", "recipes/notes.md",
		"recipes/testdata/c.go", ".deps/d.go", "_old/e.go", "bench/go.mod", "bench/f.go", "cmd/zkgrant/g.go", "cmd/other/go.mod", "cmd/other/h.go",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := sources(root, func(name string) error { got = append(got, name); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"cmd/other/h.go", "events/a.go", "events/a_windows.go", "recipes/deep/er/b.go"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestWhatUsersLink: a program that uses this library, or the in-process server, links the client and the logger as well, and not
// package testing and its flags.
func TestWhatUsersLink(t *testing.T) {
	for _, program := range []string{"./coordinator", "./events", "./session/zktest", "./coordinator/board", "./coordinator/bridge", "./examples/quickstart"} {
		command := exec.CommandContext(t.Context(), "go", "list", "-deps", program)
		command.Dir = moduleFolder(t)
		var complaint strings.Builder
		command.Stderr = &complaint
		list, err := command.Output()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, complaint.String())
		}
		deps := strings.Fields(string(list))
		if !slices.Contains(deps, module+"/events") {
			t.Errorf("%s does not use the library; its packages: %q", program, deps)
		}
		for _, dep := range deps {
			foreign := strings.Contains(strings.Split(dep, "/")[0], ".") && !anyWithin(dep, []string{module, zkModule, zapModule, "go.uber.org/multierr"})
			if foreign || dep == "testing" {
				t.Errorf("%s links %s", program, dep)
			}
		}
	}
}

// roomsThatMayChange are the packages below this one of which a user must not have to name a type.
func roomsThatMayChange() []string { return []string{"session", "actors", "recipes"} }

// TestUsersNameNoTypeOfARoomThatMayChange: what is exported is a type of this package, with its methods in its documentation, or a
// type of a package that follows semantic versioning.
func TestUsersNameNoTypeOfARoomThatMayChange(t *testing.T) {
	files := token.NewFileSet()
	parsed, err := parser.ParseDir(files, ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.SkipObjectResolution) //nolint:staticcheck // no build tags here
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range parsed["coordinator"].Files {
		for _, decl := range file.Decls {
			for _, shown := range exportedTypes(decl) {
				checked++
				for _, name := range foreign(shown) {
					t.Errorf("%s: an exported declaration shows %s, want no type of %v", files.Position(shown.Pos()), name, roomsThatMayChange())
				}
			}
		}
	}
	if checked < 80 {
		t.Errorf("%d exported declarations were looked at, want all of them", checked)
	}
}

// TestATypeOfARoomThatMayChangeIsSeen: the check above fails where it has to.
func TestATypeOfARoomThatMayChangeIsSeen(t *testing.T) {
	for source, want := range map[string]string{
		"type A = session.State":                         "session.State",
		"type A = string":                                "", // nothing that changes
		"type A struct { B session.State }":              "session.State",
		"type A struct { b session.State }":              "",
		"type A interface { B(*actors.Lock) }":           "actors.Lock",
		"type A interface { b(*actors.Lock) }":           "",
		"type a = session.State":                         "",
		"func A(...session.Option) error { return nil }": "session.Option",
		"func (a *A) B() (s []recipes.Kind) { return }":  "recipes.Kind",
		"func (a *A) b() session.State { return 0 }":     "",
		"func A() events.Grant { return session.X }":     "",
		"var A session.State":                            "session.State",
		"var A = session.ErrClosed":                      "", // an error's value
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package p\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, decl := range file.Decls {
			for _, shown := range exportedTypes(decl) {
				got = append(got, foreign(shown)...)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s shows %q, want %q", source, got, want)
		}
	}
}

// exportedTypes returns the types that a declaration shows to users of the package.
func exportedTypes(decl ast.Decl) (shown []ast.Node) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || !hiddenReceiver(d.Recv.List[0].Type)) {
			shown = append(shown, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					shown = append(shown, s.Type)
				}
			case *ast.ValueSpec:
				if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					shown = append(shown, s.Type)
				}
			}
		}
	}
	return shown
}

// foreign returns the types of rooms that may change which a type shows, without unexported fields and methods.
func foreign(shown ast.Node) (names []string) {
	ast.Inspect(shown, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			n.Fields.List = slices.DeleteFunc(slices.Clone(n.Fields.List), hidden)
		case *ast.InterfaceType:
			n.Methods.List = slices.DeleteFunc(slices.Clone(n.Methods.List), hidden)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(roomsThatMayChange(), x.Name) {
				names = append(names, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return names
}

// hidden reports whether the field or method has names, and none of them is exported.
func hidden(f *ast.Field) bool {
	return len(f.Names) > 0 && !slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
}

// hiddenReceiver reports whether a method is one of a type that is not exported.
func hiddenReceiver(of ast.Expr) bool {
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	name, ok := of.(*ast.Ident)
	return ok && !name.IsExported()
}
