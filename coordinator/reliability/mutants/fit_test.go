package mutants

import (
	"strings"
	"testing"
)

// TestMutantsFit holds what a run of the mutants builds on: each changes the source
// as it is now, compiles, and names tests that there are.
func TestMutantsFit(t *testing.T) {
	on := readTree(t)
	c := newCompiler(t, on)
	tests := map[string]map[string]string{}
	for _, room := range rooms() {
		tests[room] = on.tests(t, room)
	}
	names := map[string]bool{}
	for _, m := range all() {
		t.Run(m.name, func(t *testing.T) {
			if names[m.name] {
				t.Error("another mutant has this name")
			}
			names[m.name] = true
			if m.breaks == "" || strings.HasSuffix(m.breaks, ".") {
				t.Errorf("%q is not what it breaks", m.breaks)
			}
			if len(m.edits) == 0 {
				t.Fatal("changes nothing")
			}
			for _, e := range m.edits {
				if strings.HasSuffix(e.file, "_test.go") {
					t.Errorf("%s is a test", e.file)
				}
			}
			if err := c.check(on.changed(t, m)); err != nil {
				t.Errorf("does not compile: %v", err)
			}
			for _, f := range m.finders() {
				if _, ok := tests[f.pkg][f.test]; !ok {
					t.Errorf("there is no %v", f)
				}
			}
		})
	}
	if n := len(all()); n < 24 {
		t.Errorf("%d mutants are too few", n)
	}
}

// TestMisfitsAreNoticed holds that the check above can fail.
func TestMisfitsAreNoticed(t *testing.T) {
	on := readTree(t)
	const file = "recipes/rule.go"
	for name, e := range map[string]edit{
		"is not there":   {file, "a text that nobody has written", ""},
		"is there twice": {file, "return", "panic"},
	} {
		if _, err := (mutant{edits: []edit{e}}).apply(file, on.read(t, file)); err == nil {
			t.Errorf("a mutant whose text %s was applied", name)
		}
	}
	c := newCompiler(t, on)
	text := on.read(t, file)
	for name, changed := range map[string]string{
		"no syntax":         text + "\nfunc {",
		"no type":           text + "\nvar unused nothing\n",
		"no use":            text + "\nfunc unused() { unused := 1 }\n",
		"the same name":     text + "\ntype Mutex struct{}\n",
		"no type elsewhere": strings.ReplaceAll(text, "Mutex", "Exclusive") + "\nvar _ = NewMachine(Mutex{})\n",
	} {
		if err := c.check(map[string]string{file: changed}); err == nil {
			t.Errorf("a mutant compiles that has %s", name)
		}
	}
	if err := c.check(map[string]string{file: text}); err != nil {
		t.Errorf("what is on the disk does not compile: %v", err)
	}
	if err := c.check(map[string]string{"recipes/nothing.go": "package recipes\n"}); err == nil {
		t.Error("a file that is not built was changed")
	}
}
