package interop

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// nodes is a column of MATRIX.md: one form of the holders' names, or a child of the lock's directory that is no contender's.
type nodes struct {
	name    string
	holders []role // none for a child that is no contender's, which has this name
}

// held are the columns of the page.
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

// newcomer is a row of the page: one form, or two that do the same.
type newcomer struct {
	title string
	roles []role
}

// newcomers are the rows of the page.
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

// verdict is the outcome for a contender that comes while another one holds the lock, as the page has it without bold letters.
type verdict string

const (
	waits   verdict = "waits"          // until the holder has left, and then enters
	forever verdict = "waits for ever" // behind a child that is no contender's; here until that is removed
	enters  verdict = "enters"         // beside the holder
	refuses verdict = "`ErrKind`"      // and without a node
	fails   verdict = "fails"          // with another error, and may leave its node there
)

// verdicts returns the cells of MATRIX.md by row and column. It fails the test if the page is not whole, or if other cells are bold than
// those that are wrong: two contenders that exclude each other are inside together, or the newcomer fails or waits for ever.
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

// tables is how many meetings take place at a time. Most of their time is a wait for what must not happen.
const tables = 12

// TestMatrix lets every contender come to a lock that another one holds, each played by its own library, and compares the outcome with
// MATRIX.md. If the newcomer enters beside the holder, that is seen while the holder is inside. If it waits, that is seen by its node, a
// moment without news, and its entry when the holder has left. Each meeting has its own path. By default, one holder of each name meets the
// first form of each family. At full length, all meet all.
func TestMatrix(t *testing.T) {
	t.Parallel()
	wanted := verdicts(t)
	a := enter(t)
	players := make(map[family]*player)
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
					for _, r := range []role{holds, comes} {
						if r.family != "" && players[r.family] == nil {
							players[r.family] = a.start(t, r.family, a.addr)
						}
					}
					n++
					m := meeting{arena: a, holds: holds, comes: comes, name: fmt.Sprintf("meeting-%d", n), dir: fmt.Sprintf("/interop/matrix/%d", n)}
					holder, guest, want := players[holds.family], players[comes.family], wanted[row.title][i]
					places <- struct{}{}
					all.Go(func() {
						defer func() { <-places }()
						if got, err := m.play(t.Context(), holder, guest, want); err != nil || got != want {
							t.Errorf("%s held by %v, %v comes: %s, %v, and not %s", m.dir, m.holds, m.comes, got, err, want)
						}
					})
				}
			}
		}
	}
	all.Wait()
	t.Logf("%d meetings in %v", n, time.Since(began).Round(time.Millisecond))
}

// meeting is a holder of a lock, and a newcomer. A holder without a family is no contender but a child of the directory, named by the form.
type meeting struct {
	arena        *arena
	holds, comes role
	name, dir    string
}

// play returns the newcomer's outcome. If it is expected to wait, it is watched for a moment. Else it may take its time: on a busy machine
// a moment is not enough.
func (m *meeting) play(ctx context.Context, holder, guest *player, expected verdict) (verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("%s: not over within %v", m.name, 2*patience))
	defer cancel()
	leave, err := m.hold(ctx, holder)
	if err != nil {
		return "", fmt.Errorf("the holder: %w", err)
	}
	c, err := guest.open(ctx, m.name+"-comes", m.comes.form, m.dir)
	if err != nil {
		return "", err
	}
	if err := c.ask(endless); err != nil {
		return "", err
	}
	long := patience
	if expected == waits || expected == forever {
		long = moment
	}
	first, heard, err := m.watch(ctx, c, long)
	switch {
	case err != nil:
		return "", err
	case !heard: // it waits
		if err := leave(); err != nil {
			return "", fmt.Errorf("the holder: %w", err)
		}
		if err := c.says(ctx, orderAcquire); err != nil {
			return "", err
		}
		if holder == nil {
			return forever, end(ctx, c)
		}
		return waits, end(ctx, c)
	case first.word == orderAcquire:
		if err := end(ctx, c); err != nil {
			return "", err
		}
		return enters, leave()
	case first.word == newsFail && strings.HasPrefix(first.text, coordinator.ErrKind.Error()):
		if there, err := m.arena.witness.owns(m.dir, c.session); err != nil || there {
			return "", fmt.Errorf("it has left its node: %v, %w", there, err)
		}
		return refuses, leave()
	case first.word == newsFail:
		return fails, leave()
	default:
		return "", fmt.Errorf("it said %s %s", first.word, first.text)
	}
}

// hold lets the holder enter. It is inside until leave is called.
func (m *meeting) hold(ctx context.Context, by *player) (leave func() error, err error) {
	if by == nil {
		child := m.dir + "/" + string(m.holds.form)
		return func() error { return m.arena.witness.remove(child) }, m.arena.witness.make(child)
	}
	c, err := by.open(ctx, m.name+"-holds", m.holds.form, m.dir)
	if err == nil {
		err = c.do(ctx, orderAcquire, "-1")
	}
	return func() error { return end(ctx, c) }, err
}

// end makes a contender that is inside leave, and ends its session.
func end(ctx context.Context, c *contender) error {
	for _, order := range []string{orderRelease, orderClose} {
		if err := c.do(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

// watch returns the contender's first news, or that it has said nothing for that long while its node existed.
func (m *meeting) watch(ctx context.Context, c *contender, long time.Duration) (n news, heard bool, err error) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	var over <-chan time.Time
	for {
		select {
		case n := <-c.heard:
			return n, true, nil
		case <-over:
			return news{}, false, nil
		case <-ctx.Done():
			return news{}, false, context.Cause(ctx)
		case <-look.C:
		}
		if over != nil {
			continue
		}
		there, err := m.arena.witness.owns(m.dir, c.session)
		if err != nil {
			return news{}, false, err
		}
		if there {
			over = time.After(long)
		}
	}
}
