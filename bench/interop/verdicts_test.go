package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/goldentest"
)

// verdict is the outcome for a contender that comes while another one holds the lock.
type verdict byte

const (
	waits   verdict = 'w' // until the holder has left, and then enters
	enters  verdict = 'E' // beside the holder
	refuses verdict = 'R' // with ErrKind, and without a node
	fails   verdict = 'F' // with another error, and may leave its node there
)

// role is a form of a family's lock.
type role struct {
	family family
	form   form
}

// String names the role.
func (r role) String() string { return string(r.family) + " " + string(r.form) }

// nodes is one form of the holders' names, or a child of the lock's directory that is no contender's.
type nodes struct {
	verdicts string // one for each of acquirers, in their order
	name     string // as on the page
	reads    bool
	holders  []role // none for a child that is no contender's, which has this name
}

// acquirers are the columns of verdicts.
func acquirers() []role {
	return []role{
		{zkgrant, formMutex},
		{zkgrant, formCached},
		{zkgrant, formRead},
		{zkgrant, formWrite},
		{zkgrant, formMutexKazoo},
		{zkgrant, formReadKazoo},
		{zkgrant, formWriteKazoo},
		{curator, formMutex},
		{curator, formRead},
		{curator, formWrite},
		{stock, formLock},
		{kazoo, formLock},
		{kazoo, formLockExtra},
		{kazoo, formLockAll},
		{kazoo, formRead},
		{kazoo, formWrite},
		{writeLock, formWriteLock},
	}
}

// verdicts are the outcomes of all meetings: a row for each holder, a column for each newcomer. The workloads test waiting in a queue
// behind others.
func verdicts() []nodes {
	return []nodes{
		// zkgrant
		// mutex, cached, read, write
		// |        as kazoo
		// |        |      Curator
		// |        |      mutex, read, write
		// |        |      |      go-zookeeper
		// |        |      |      |  kazoo
		// |        |      |      |  Lock, with a pattern, with three, ReadLock, WriteLock
		// |        |      |      |  |          WriteLock
		{"w w w w  R R R  w E E  w  E w w E E  w", "`lock-`", false, []role{
			{zkgrant, formMutex}, {zkgrant, formCached}, {curator, formMutex}, {stock, formLock},
		}},
		{"w w E w  R R R  E E w  w  E E w E E  E", "`__READ__`", true, []role{{zkgrant, formRead}, {curator, formRead}}},
		{"w w w w  R R R  E w w  w  E E w E E  E", "`__WRIT__`", false, []role{{zkgrant, formWrite}, {curator, formWrite}}},
		{"w w w w  w w w  E E E  w  w w w w w  E", "`__lock__`", false, []role{
			{zkgrant, formMutexKazoo}, {zkgrant, formWriteKazoo},
			{kazoo, formLock}, {kazoo, formLockExtra}, {kazoo, formLockAll}, {kazoo, formWrite},
		}},
		{"w w E w  w E w  E E E  w  E E E E w  E", "`__rlock__`", true, []role{{zkgrant, formReadKazoo}, {kazoo, formRead}}},
		{"w w w w  R R R  E E E  F  E E E E E  w", "`x-`", false, []role{{writeLock, formWriteLock}}},
		{"E E E E  E E E  w E w  F  E E E E E  E", "!note", false, nil},
		{"E E E E  E E E  E E E  F  E E E E E  E", "config", false, nil},
	}
}

// of is the verdict on one of the acquirers.
func (n nodes) of(i int) verdict { return verdict(strings.Fields(n.verdicts)[i][0]) }

// TestVerdictsAreWhole: there is a verdict in each cell, and it is one of the four.
func TestVerdictsAreWhole(t *testing.T) {
	t.Parallel()
	for _, n := range verdicts() {
		cells := strings.Fields(n.verdicts)
		if len(cells) != len(acquirers()) {
			t.Errorf("%s: %d verdicts for %d acquirers", n.name, len(cells), len(acquirers()))
		}
		for _, cell := range cells {
			if !slices.Contains([]string{"w", "E", "R", "F"}, cell) {
				t.Errorf("%s: %s is no verdict", n.name, cell)
			}
		}
	}
}

// page has the verdicts for people.
const page = "MATRIX.md"

// TestPage compares the page with the verdicts. With -update it writes the page.
func TestPage(t *testing.T) {
	t.Parallel()
	goldentest.Compare(t, page, write(acquirers(), verdicts()))
}

// write makes the page: a row for each newcomer, and a column for each holder. Forms of one family with the same verdicts share a row.
func write(who []role, held []nodes) string {
	var b strings.Builder
	b.WriteString(`# Which contender waits for which

What a contender does at a path where another one holds a lock, by the name of the holder's node. The libraries
themselves played each cell on a real server: Curator 5.4, kazoo 2.8, go-zookeeper 1.0.4, WriteLock of ZooKeeper 3.8.
What is in bold is wrong: two contenders that exclude each other are inside together, or the newcomer fails, or it waits
for a node that never goes.

Kazoo's ` + "`Lock` with" + ` names was made with these ` + "`extra_lock_patterns`" + `.
[TestMatrix](matrix_test.go) plays it, and [TestPage](verdicts_test.go) writes this page.

`)
	b.WriteString("| newcomer | " + strings.Join(titles(held), " | ") + " |\n")
	b.WriteString("|---|" + strings.Repeat("---|", len(held)) + "\n")
	var rows [][]string
	for i, r := range who {
		row := []string{library(r.family) + " " + title(r)}
		for _, n := range held {
			row = append(row, cell(n, r, n.of(i)))
		}
		if last := len(rows) - 1; i > 0 && who[i-1].family == r.family && slices.Equal(rows[last][1:], row[1:]) {
			rows[last][0] += ", " + title(r)
			continue
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	b.WriteString("\nThe makers of each name:\n\n")
	for _, n := range held {
		if n.holders == nil {
			fmt.Fprintf(&b, "- `%s`: no contender's; a child of the directory made by hand\n", n.name)
			continue
		}
		var by []string
		for _, r := range n.holders {
			by = append(by, library(r.family)+" "+title(r))
		}
		fmt.Fprintf(&b, "- %s: %s\n", n.name, strings.Join(by, ", "))
	}
	return b.String()
}

func titles(held []nodes) (all []string) {
	for _, n := range held {
		if n.holders == nil {
			all = append(all, "`"+n.name+"`")
		} else {
			all = append(all, n.name)
		}
	}
	return all
}

// cell is a verdict in words.
func cell(n nodes, comes role, v verdict) string {
	switch v {
	case waits:
		if n.holders == nil {
			return "**waits for ever**"
		}
		return "waits"
	case refuses:
		return "`ErrKind`"
	case fails:
		return "**fails**"
	default:
		if n.holders == nil || n.reads && comes.form.shared() {
			return "enters"
		}
		return "**enters**"
	}
}

// library is a family's name for people.
func library(f family) string {
	switch f {
	case curator:
		return "Curator"
	case writeLock:
		return "ZooKeeper"
	default:
		return string(f)
	}
}

// title is a form's name for people.
func title(r role) string {
	if plain, ok := strings.CutSuffix(string(r.form), "-kazoo"); ok {
		return plain + " `AsKazoo()`"
	}
	switch {
	case r.form == formCached:
		return "mutex `Cached()`"
	case r.form == formWriteLock:
		return "`WriteLock`"
	case r.form == formLockExtra:
		return "`Lock` with `lock-`"
	case r.form == formLockAll:
		return "`Lock` with `lock-`, `__READ__`, `__WRIT__`"
	case r.form == formLock:
		return "`Lock`"
	case r.family == kazoo && r.form == formRead:
		return "`ReadLock`"
	case r.family == kazoo && r.form == formWrite:
		return "`WriteLock`"
	default:
		return string(r.form)
	}
}
