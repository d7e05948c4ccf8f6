package interop

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// nodes is a column of MATRIX.md: a form of the holders' names, or a child of the lock's
// directory that does not belong to a contender.
type nodes struct {
	name    string
	holders []role // empty for a child that is not a contender; then name is its name
}

// held returns the columns of the page.
func held() []nodes {
	return []nodes{
		{"lock-", []role{
			{zkgrant, formMutex}, {zkgrant, formCached}, {zkgrant, formElection}, {curator, formMutex}, {curator, formSelector}, {stock, formLock},
		}},
		{"__READ__", []role{{zkgrant, formRead}, {curator, formRead}}},
		{"__WRIT__", []role{{zkgrant, formWrite}, {curator, formWrite}}},
		{"__lock__", []role{
			{zkgrant, formMutexKazoo}, {zkgrant, formElectionKazoo}, {zkgrant, formWriteKazoo},
			{kazoo, formLock}, {kazoo, formLockExtra}, {kazoo, formLockAll}, {kazoo, formElection}, {kazoo, formWrite},
		}},
		{"__rlock__", []role{{zkgrant, formReadKazoo}, {kazoo, formRead}}},
		{"x-", []role{{writeLock, formWriteLock}}},
		{"latch-", []role{{curator, formLatch}}},
		{"!note", nil},
		{"config", nil},
	}
}

// newcomer is a row of the page: one form, or several that behave alike.
type newcomer struct {
	title string
	roles []role
}

// newcomers returns the rows of the page.
func newcomers() []newcomer {
	return []newcomer{
		{"zkgrant mutex, mutex `Cached()`, election", []role{{zkgrant, formMutex}, {zkgrant, formCached}, {zkgrant, formElection}}},
		{"zkgrant read", []role{{zkgrant, formRead}}},
		{"zkgrant write", []role{{zkgrant, formWrite}}},
		{"zkgrant mutex, election `AsKazoo()`", []role{{zkgrant, formMutexKazoo}, {zkgrant, formElectionKazoo}}},
		{"zkgrant read `AsKazoo()`", []role{{zkgrant, formReadKazoo}}},
		{"zkgrant write `AsKazoo()`", []role{{zkgrant, formWriteKazoo}}},
		{"Curator mutex, `LeaderSelector`", []role{{curator, formMutex}, {curator, formSelector}}},
		{"Curator read", []role{{curator, formRead}}},
		{"Curator write", []role{{curator, formWrite}}},
		{"Curator `LeaderLatch`", []role{{curator, formLatch}}},
		{"go-zookeeper `Lock`", []role{{stock, formLock}}},
		{"kazoo `Lock`, `Election`", []role{{kazoo, formLock}, {kazoo, formElection}}},
		{"kazoo `Lock` with `lock-`", []role{{kazoo, formLockExtra}}},
		{"kazoo `Lock` with `lock-`, `__READ__`, `__WRIT__`", []role{{kazoo, formLockAll}}},
		{"kazoo `ReadLock`", []role{{kazoo, formRead}}},
		{"kazoo `WriteLock`", []role{{kazoo, formWrite}}},
		{"ZooKeeper `WriteLock`", []role{{writeLock, formWriteLock}}},
	}
}

// verdict is the outcome for a contender that arrives while another one holds the lock,
// as on the page without bold type.
type verdict string

const (
	waits   verdict = "waits"         // until the holder has left, then enters
	forever verdict = "waits forever" // for a child that is not a contender; in the test until it is removed
	enters  verdict = "enters"        // while the holder is inside
	refuses verdict = "`ErrKind`"     // and leaves no node
	fails   verdict = "fails"         // with another error, and may leave its node
)

// verdicts returns the cells of MATRIX.md by row and column. It fails the test if a cell
// is missing, or unless exactly the wrong outcomes are bold: two contenders that exclude
// each other are inside at once, or the newcomer fails or waits forever.
func verdicts(t *testing.T) map[string][]verdict {
	t.Helper()
	page, err := os.ReadFile("MATRIX.md")
	eventstest.Must(t, err)
	columns, all := held(), map[string][]verdict{}
	for _, row := range newcomers() {
		_, line, _ := strings.Cut(string(page), "\n| "+row.title+" | ")
		line, _, _ = strings.Cut(line, " |\n")
		cells := strings.Split(line, " | ")
		if len(cells) != len(columns) {
			t.Fatalf("the row %s has %d cells, want %d", row.title, len(cells), len(columns))
		}
		for i, cell := range cells {
			v := verdict(strings.Trim(cell, "*"))
			stranger := columns[i].holders == nil
			readers := !stranger && columns[i].holders[0].form.shared() && row.roles[0].form.shared()
			if wrong := v == fails || v == forever || v == enters && !stranger && !readers; wrong != strings.HasPrefix(cell, "**") {
				t.Errorf("%s at %s: %q is bold, want %v", row.title, columns[i].name, cell, wrong)
			}
			all[row.title] = append(all[row.title], v)
		}
	}
	return all
}

// tables is how many meetings take place at a time. They mostly wait for things that must
// not happen.
const tables = 12

// TestMatrix lets every contender request a lock that another one holds, each played by
// its own library, and compares the outcome with MATRIX.md. A newcomer enters beside the
// holder if it does so while the holder is inside. It waits if it has a node, says
// nothing for a moment, and enters after the holder has left. Each meeting has its own
// path. By default, one holder of each name meets the first form of each family. At full
// length, all forms meet.
func TestMatrix(t *testing.T) {
	t.Parallel()
	wanted := verdicts(t)
	a := enter(t)
	players := make(map[family]*player)
	for _, f := range []family{zkgrant, stock, curator, kazoo, writeLock} {
		players[f] = a.start(t, f, a.addr)
	}
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, tables)
	began, n := time.Now(), 0
	for i, column := range held() {
		holders := column.holders
		if holders == nil {
			holders = []role{{form: form(column.name)}}
		}
		for _, holds := range some(holders) {
			met := map[family]bool{}
			for _, row := range newcomers() {
				for _, comes := range row.roles {
					if met[comes.family] && !eventstest.Full() {
						continue
					}
					met[comes.family] = true
					n++
					s := &stage{arena: a, players: players, dir: fmt.Sprintf("/interop/matrix/%d", n)}
					want := wanted[row.title][i]
					places <- struct{}{}
					all.Go(func() {
						defer func() { <-places }()
						s.meet(t, holds, comes, want)
					})
				}
			}
		}
	}
	all.Wait()
	t.Logf("%d meetings in %v", n, time.Since(began).Round(time.Millisecond))
}

// meet plays a meeting as a subtest, and checks the newcomer's outcome. A holder without
// a family is not a contender but a child of the directory, named by the form.
func (s *stage) meet(t *testing.T, holds, comes role, want verdict) {
	t.Helper()
	t.Run(fmt.Sprintf("%v, %v comes", holds, comes), func(t *testing.T) {
		s.t = t
		got := s.outcome(holds, comes, want)
		eventstest.Equal(t, got, want, "%s held by %v, %v comes", s.dir, holds, comes)
	})
}

// outcome returns the newcomer's outcome. If it is expected to wait, it is watched only
// for a moment. Otherwise it gets more time, since a moment is not enough on a busy
// machine.
func (s *stage) outcome(holds, comes role, expected verdict) verdict {
	s.t.Helper()
	var leave func()
	waiting := waits
	if holds.family == "" {
		child := s.dir + "/" + string(holds.form)
		eventstest.Must(s.t, s.arena.witness.make(child))
		waiting, leave = forever, func() { eventstest.Must(s.t, s.arena.witness.remove(child)) }
	} else {
		holder := s.connect(holds.family, holds.form)
		s.enters(holder)
		leave = func() { s.goes(holder) }
	}
	c := s.connect(comes.family, comes.form)
	s.acquire(c)
	long := patience
	if expected == waits || expected == forever {
		long = moment
	}
	first, heard := s.hears(c, long)
	switch {
	case !heard:
		leave()
		s.says(c, orderAcquire)
		s.goes(c)
		return waiting
	case first.word == orderAcquire:
		s.goes(c)
		leave()
		return enters
	case first.word != newsFail:
		s.t.Fatalf("%v said %s %s", c, first.word, first.text)
	}
	defer leave()
	if !strings.HasPrefix(first.text, coordinator.ErrKind.Error()) {
		return fails
	}
	there, err := s.arena.witness.owns(s.dir, c.session)
	eventstest.Expect(s.t, err == nil && !there, "%v has left its node: %v, %v", c, there, err)
	return refuses
}

// goes makes a contender that is inside leave, and ends its session.
func (s *stage) goes(c *contender) {
	s.t.Helper()
	s.leaves(c)
	s.does(c, orderClose)
}

// hears returns the contender's first news, or false if it has said nothing for that long
// while its node existed.
func (s *stage) hears(c *contender, long time.Duration) (n news, heard bool) {
	s.t.Helper()
	eventstest.Eventually(s.t, fmt.Sprintf("%v has a node, or says something", c), func() bool {
		select {
		case n = <-c.heard:
			heard = true
			return true
		default:
		}
		there, err := s.arena.witness.owns(s.dir, c.session)
		eventstest.Must(s.t, err)
		return there
	})
	if heard {
		return n, true
	}
	select {
	case n = <-c.heard:
		return n, true
	case <-time.After(long):
		return n, false
	}
}
