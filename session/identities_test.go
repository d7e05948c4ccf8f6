package session

import "testing"

// TestIdentitiesChangeWithoutANode plays every sequence of steps up to a length. The
// steps: a connection is made while the source returns a or b; a node is created; the
// last node is deleted.
func TestIdentitiesChangeWithoutANode(t *testing.T) {
	const steps, long = "ab+-", 8
	said := map[rune][]Auth{'a': {{Scheme: "digest", Auth: []byte("u:a")}}, 'b': {{Scheme: "digest", Auth: []byte("u:b")}}}
	nameOf := func(used []Auth) rune {
		if len(used) == 0 {
			return 0
		}
		return rune(used[0].Auth[2])
	}
	stories := 0
	var play func(story string, i identities, owner rune, revoked map[rune]bool)
	play = func(story string, i identities, owner rune, revoked map[rune]bool) {
		stories++
		if len(story) == long {
			return
		}
		for _, step := range steps {
			next, who := i, owner
			gone := map[rune]bool{'a': revoked['a'], 'b': revoked['b']}
			empties := func() { // what the source no longer returns is revoked
				for name := range gone {
					gone[name] = gone[name] || name != nameOf(next.latest)
				}
			}
			switch step {
			case 'a', 'b':
				next = i.dial(said[step], owner != 0)
				gone[step] = false
				if owner == 0 {
					empties()
				}
				used := nameOf(next.used)
				switch {
				case owner != 0 && used != owner:
					t.Fatalf("%s%c: with a node of %c the identity is %c", story, step, owner, used)
				case owner == 0 && used != step:
					t.Fatalf("%s%c: without a node the identity is %c", story, step, used)
				case gone[used]:
					t.Fatalf("%s%c: the identity %c is sent again", story, step, used)
				}
			case '+':
				if i.used == nil || i.over || owner != 0 { // a revoked identity first costs the connection
					continue
				}
				if who = nameOf(i.used); gone[who] {
					t.Fatalf("%s%c: a node is made with the identity %c, which is over", story, step, who)
				}
			case '-':
				if owner == 0 {
					continue
				}
				next, who = i.empty(), 0
				empties()
			}
			play(story+string(step), next, who, gone)
		}
	}
	play("", identities{}, 0, nil)
	expect(t, stories >= 1000, "%d stories, want thousands", stories)
}
