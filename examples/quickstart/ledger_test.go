package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// The program's verdict is only as good as the ledger's checks.
func TestTheLedgerNoticesEachViolation(t *testing.T) {
	// In each step a contender enters with a token and a session, loses the lock, or
	// leaves. A visit is to enter and leave. "vain" is to enter with a lock that is
	// already lost.
	for _, test := range []struct {
		name  string
		steps string
		want  string // empty: no complaint
	}{
		{"as it should be", "vain a 1 10, enter b 2 20, lose a, leave a, leave b, visit a 3 11", ""},
		{"a new session stands at the end", "visit b 2 20, enter a 3 11, lose a, leave a, visit a 4 11", ""},
		{"overtaken", "visit b 2 20, visit a 3 10", "a was overtaken by b"},
		{"together", "enter a 1 10, enter b 2 20", "b was granted the lock while a held it"},
		{"old token", "visit a 2 10, visit b 2 20", "token 0x2 of b came after 0x2 of a"},
		{"unfinished", "enter a 1 10, lose a, leave a, visit b 2 20", "a never finished its work"},
		{"no lock lost", "visit a 1 10, visit b 2 20", "no contender lost the lock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := newLedger([]string{"a", "b"})
			book.arrive("a", 10)
			book.arrive("b", 20)
			for _, step := range strings.Split(test.steps, ", ") {
				var does, name string
				var g events.Grant
				_, _ = fmt.Sscan(step, &does, &name, &g.Token, &g.Session) // not all have a Grant
				switch does {
				case "enter", "vain", "visit":
					if book.enter(name, g, func() bool { return does != "vain" }); does == "visit" {
						book.leave(name)
					}
				case "lose":
					book.lose(name)
				case "leave":
					book.leave(name)
				}
			}
			err := book.verify()
			if err == nil != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the ledger complains of %v, want %q", err, test.want)
			}
		})
	}
}
