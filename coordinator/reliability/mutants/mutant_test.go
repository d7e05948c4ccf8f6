package mutants

import (
	"fmt"
	"slices"
	"strings"
)

// mutant is the library with one mistake in it.
type mutant struct {
	name   string // short, and unlike any other's
	breaks string // what goes wrong, in a sentence that begins with a verb
	edits  []edit // each in another place; all of them together are the mistake
	found  finder // the lowest test that finds it
	also   finder // one on a higher floor that finds it as well; may be empty
	note   string // what a reader of the table should know
}

// edit replaces a piece of a file's text.
type edit struct {
	file string // relative to the module's folder
	old  string // occurs exactly once
	text string
}

// finder is a test that fails on a mutant.
type finder struct {
	pkg  string // its folder, relative to the module's
	test string // its name
}

func (f finder) String() string { return f.pkg + " " + f.test }

// in is an edit.
func in(file, old, text string) edit { return edit{file, old, text} }

// all returns every mutant, room by room from the bottom of the house.
func all() []mutant {
	return slices.Concat(ofTheMachine(), ofTheActors(), ofTheLease(), ofTheWire(), ofTheRequests(), ofTheFastPath(), ofTheFrontDoor(),
		ofReadWrite(), ofSemaphore(), ofUnfair(), ofElection(), ofReentry(), ofTheQueue(), ofKazoo(), ofWishes(), ofRevocation(), ofCrashes(),
		ofUpgrade(), ofMultiLocks())
}

// apply returns the text with the edits of the file in it.
func (m mutant) apply(file, text string) (string, error) {
	for _, e := range m.edits {
		if e.file != file {
			continue
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s has %d times, and not once:\n%s", file, n, e.old)
		}
		text = strings.Replace(text, e.old, e.text, 1)
	}
	return text, nil
}

// files returns which files the mutant changes.
func (m mutant) files() []string {
	var files []string
	for _, e := range m.edits {
		if !slices.Contains(files, e.file) {
			files = append(files, e.file)
		}
	}
	return files
}

// finders returns the tests that are to find the mutant.
func (m mutant) finders() []finder {
	if m.also == (finder{}) {
		return []finder{m.found}
	}
	return []finder{m.found, m.also}
}
