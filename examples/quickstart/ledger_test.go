package main

import (
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// The program's verdict is worth something only if the ledger notices each violation.
func TestTheLedgerNoticesEachViolation(t *testing.T) {
	grant := func(token, session int64) events.Grant { return events.Grant{Token: token, Session: session} }
	held := func() bool { return true }
	gone := func() bool { return false }
	visit := func(l *ledger, name string, g events.Grant) {
		l.enter(name, g, held)
		l.leave(name)
	}
	for _, test := range []struct {
		name string
		play func(*ledger)
		want string // empty: no complaint
	}{
		{"as it should be", func(l *ledger) {
			l.enter("a", grant(1, 10), gone)
			l.enter("b", grant(2, 20), held)
			l.lose("a")
			l.leave("a")
			l.leave("b")
			visit(l, "a", grant(3, 11))
		}, ""},
		{"a new session stands at the end", func(l *ledger) {
			visit(l, "b", grant(2, 20))
			l.enter("a", grant(3, 11), held)
			l.lose("a")
			l.leave("a")
			visit(l, "a", grant(4, 11))
		}, ""},
		{"overtaken", func(l *ledger) {
			visit(l, "b", grant(2, 20))
			visit(l, "a", grant(3, 10))
		}, "a was overtaken by b"},
		{"together", func(l *ledger) {
			l.enter("a", grant(1, 10), held)
			l.enter("b", grant(2, 20), held)
		}, "b was granted the lock while a held it"},
		{"old token", func(l *ledger) {
			visit(l, "a", grant(2, 10))
			visit(l, "b", grant(2, 20))
		}, "token 0x2 of b came after 0x2 of a"},
		{"unfinished", func(l *ledger) {
			l.enter("a", grant(1, 10), held)
			l.lose("a")
			l.leave("a")
			visit(l, "b", grant(2, 20))
		}, "a never finished its work"},
		{"no lock lost", func(l *ledger) {
			visit(l, "a", grant(1, 10))
			visit(l, "b", grant(2, 20))
		}, "no contender lost the lock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := newLedger([]string{"a", "b"})
			book.arrive("a", 10)
			book.arrive("b", 20)
			test.play(book)
			err := book.verify()
			if test.want == "" {
				if err != nil {
					t.Errorf("the ledger complains of %v, want nothing", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
