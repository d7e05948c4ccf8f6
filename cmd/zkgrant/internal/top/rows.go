package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// row is a lock, or a path that could not be read.
type row struct {
	events.LockInfo
	err error

	holders, waiters int
	waits            time.Time // when the oldest waiter queued up; zero if there is none
	holds            time.Time // the earliest time at which the oldest holder may have got the lock; zero if there is none
}

// id distinguishes rows: a mutex and a semaphore may have the same path.
type id struct {
	path string
	kind events.LockKind
}

func (r row) id() id { return id{r.Path, r.Kind} }

// rowOf summarises a lock. A holder that was seen waiting has held the lock since then at
// the earliest.
func rowOf(lock events.LockInfo, err error, waited map[string]time.Time) row {
	r := row{LockInfo: lock, err: err}
	for _, c := range lock.Contenders {
		switch {
		case !c.Holding:
			r.waiters++
			r.waits = earlier(r.waits, c.Since)
		case waited[c.Node].After(c.Since):
			r.holders++
			r.holds = earlier(r.holds, waited[c.Node])
		default:
			r.holders++
			r.holds = earlier(r.holds, c.Since)
		}
	}
	return r
}

// remember records that the current waiters were waiting at that time. It keeps the
// record of a contender that now holds, and drops all other records.
func remember(waited map[string]time.Time, locks []row, at time.Time) map[string]time.Time {
	now := make(map[string]time.Time)
	for _, r := range locks {
		for _, c := range r.Contenders {
			if before, ok := waited[c.Node]; !c.Holding {
				now[c.Node] = at
			} else if ok {
				now[c.Node] = before
			}
		}
	}
	return now
}

// earlier returns the earlier one of two times. The first one may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// order is the column by which the rows are sorted.
type order uint8

const (
	byWait  order = iota // the oldest waiter first
	byHold               // the oldest holder first
	byQueue              // the longest queue first
	byPath
)

// sorted sorts the rows in place. Ties are sorted by path.
func (o order) sorted(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int {
		by := 0
		switch o {
		case byWait:
			by = oldestFirst(a.waits, b.waits)
		case byHold:
			by = oldestFirst(a.holds, b.holds)
		case byQueue:
			by = cmp.Compare(b.waiters, a.waiters)
		case byPath:
		}
		return cmp.Or(by, strings.Compare(a.Path, b.Path))
	})
}

// oldestFirst compares two times; zero comes last.
func oldestFirst(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

// matches reports whether the path or a contender's data contains the text, ignoring
// case.
func (r row) matches(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(strings.ToLower(r.Path), text) || slices.ContainsFunc(r.Contenders, func(c events.Contender) bool {
		return strings.Contains(strings.ToLower(string(c.Data)), text)
	})
}
