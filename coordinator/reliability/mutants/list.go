package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bug is one seeded bug: a small change to the library's source, and the tests that find
// it.
type Bug struct {
	Name    string // short and unique
	Does    string // what goes wrong, as a verb phrase: "a library that" + Does
	Finders []Finder
	Edits   []Edit
}

// Edit replaces lines of a file.
type Edit struct {
	File     string // relative to the module's root
	Old, New string // whole lines; Old occurs exactly once
}

// Finder is a test, or one of its subtests, that fails because of a bug. If World is set,
// the test is the explorer's, and World describes what it explores and the violation that
// it reports.
type Finder struct {
	Pkg   string // folder of the package, relative to the module's root
	Test  string // a subtest is written TestX/its_name
	World string
}

func (f Finder) pattern() string { return "^" + strings.ReplaceAll(f.Test, "/", "$/^") + "$" }

// whole returns the top-level test to which f belongs.
func (f Finder) whole() Finder {
	test, _, _ := strings.Cut(f.Test, "/")
	return Finder{Pkg: f.Pkg, Test: test}
}

func (f Finder) String() string {
	if f.World != "" {
		return explorer + " " + f.World
	}
	return f.Pkg + " " + f.Test
}

// In the lists, one word names the explorer's test.
const explorer, explorerPackage, explorerTest = "explore", "recipes", "TestExploreFinds"

// ReadList returns the bugs of all lists in a folder, in the order of the file names. An
// entry without edits adds its finders to the bug of the same name.
func ReadList(folder string) ([]*Bug, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []*Bug
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		bugs, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, bugs...)
	}
	return merge(all)
}

// merge adds the finders of entries without edits to the bug of the same name.
func merge(entries []*Bug) ([]*Bug, error) {
	byName := map[string]*Bug{}
	var bugs []*Bug
	for _, b := range entries {
		switch {
		case len(b.Edits) == 0:
		case byName[b.Name] != nil:
			return nil, fmt.Errorf("two bugs are named %q", b.Name)
		default:
			byName[b.Name] = b
			bugs = append(bugs, b)
		}
	}
	for _, b := range entries {
		first := byName[b.Name]
		switch {
		case first == nil:
			return nil, fmt.Errorf("%q changes nothing, and no other entry has its name", b.Name)
		case first != b:
			first.Finders = append(first.Finders, b.Finders...)
		}
	}
	return bugs, nil
}

// Parse reads a list. Entries are separated by empty lines:
//
//	bug: its name
//	does: what goes wrong
//	found: coordinator TestOfThatPackage/one_subtest
//	found: explore clients=3 expire=1 -> two holders
//	note: optional
//	recipes/machine.go
//	 a line of the file that stays
//	-a line that is removed
//	+a line that is added
//
// Each change in a file begins with the file's name.
func Parse(text string) ([]*Bug, error) {
	var bugs []*Bug
	for n, entry := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		b, err := parseEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w in\n%s", n+1, err, entry)
		}
		bugs = append(bugs, b)
	}
	return bugs, nil
}

func parseEntry(entry string) (*Bug, error) {
	b := &Bug{}
	for line := range strings.SplitSeq(entry, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			return nil, fmt.Errorf("there is an empty line")
		case strings.ContainsRune(" -+", rune(line[0])):
			if len(b.Edits) == 0 {
				return nil, fmt.Errorf("no file is named before %q", line)
			}
			b.Edits[len(b.Edits)-1].add(line)
		case strings.HasSuffix(line, ".go"):
			b.Edits = append(b.Edits, Edit{File: line})
		case key == "bug":
			b.Name = value
		case key == "does":
			b.Does = value
		case key == "note": // for readers
		case key == "found":
			f, err := parseFinder(value)
			if err != nil {
				return nil, err
			}
			b.Finders = append(b.Finders, f)
		default:
			return nil, fmt.Errorf("nothing begins like %q", line)
		}
	}
	if b.Name == "" || len(b.Finders) == 0 || len(b.Edits) > 0 && b.Does == "" {
		return nil, fmt.Errorf("the name, what it does or the finder is missing")
	}
	return b, nil
}

func parseFinder(text string) (Finder, error) {
	where, what, ok := strings.Cut(text, " ")
	switch {
	case where == explorer && strings.Contains(what, " -> "):
		return Finder{explorerPackage, explorerTest, what}, nil
	case where == explorer || !ok || strings.Contains(what, " "):
		return Finder{}, fmt.Errorf("%q is neither a package and a test nor a world and a violation", text)
	default:
		return Finder{Pkg: where, Test: what}, nil
	}
}

// add adds a line of the edit, which the file keeps, loses or gains.
func (e *Edit) add(line string) {
	if line[0] != '+' {
		e.Old += line[1:] + "\n"
	}
	if line[0] != '-' {
		e.New += line[1:] + "\n"
	}
}

// Apply returns the text of the file with the bug in it.
func (b *Bug) Apply(file, text string) (string, error) {
	text = "\n" + text // so that each line has a newline on both sides
	for _, e := range b.Edits {
		if e.File != file {
			continue
		}
		if n := strings.Count(text, "\n"+e.Old); n != 1 {
			return "", fmt.Errorf("%s: %s has these lines %d times, and not once:\n%s", b.Name, file, n, e.Old)
		}
		text = strings.Replace(text, "\n"+e.Old, "\n"+e.New, 1)
	}
	return text[1:], nil
}

// Changed returns the bugs that must be run after files have changed: if a bug edits one
// of the files, if a finder of the bug is in one, or if the bug is not in old with the
// same edits and finders. tests maps each test to its file.
func Changed(bugs, old []*Bug, files []string, tests map[Finder]string) []*Bug {
	was := map[string]string{}
	for _, b := range old {
		was[b.Name] = fmt.Sprint(b.Finders, b.Edits)
	}
	touched := func(file string) bool { return slices.Contains(files, file) }
	return slices.DeleteFunc(slices.Clone(bugs), func(b *Bug) bool {
		found := func(f Finder) bool { return touched(tests[f.whole()]) }
		return was[b.Name] == fmt.Sprint(b.Finders, b.Edits) && !slices.ContainsFunc(b.Files(), touched) && !slices.ContainsFunc(b.Finders, found)
	})
}

// Files returns the files that the bug changes.
func (b *Bug) Files() []string {
	var files []string
	for _, e := range b.Edits {
		if !slices.Contains(files, e.File) {
			files = append(files, e.File)
		}
	}
	return files
}
