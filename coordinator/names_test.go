package coordinator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// roomsThatMayChange are the packages below this one whose types nobody has to name who uses it.
func roomsThatMayChange() []string { return []string{"session", "actors", "recipes"} }

// TestUsersNameNoTypeOfARoomThatMayChange: what is exported is a type of this package, with its methods in its documentation, or of one
// that follows semantic versioning.
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

// exportedTypes returns what a declaration shows of types to those who use the package.
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

// foreign returns the types of rooms that may change which a type shows, fields and methods that are not exported aside.
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
