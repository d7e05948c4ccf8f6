package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/events"
)

// ledger keeps the book of who held the lock, to check afterwards that the
// promises were kept. Its methods may be called from any goroutine.
type ledger struct {
	names []string // in the order in which they queued up

	mu        sync.Mutex
	sessions  map[string]int64       // in which each of them queued up
	inside    map[string]func() bool // who works at the moment, and whether its lock is valid
	condemned map[string]bool        // whose session is being ended by hand
	grants    []tenure
	overlaps  []string
}

// tenure is one time that somebody held the lock.
type tenure struct {
	name    string
	token   int64
	session int64
	lost    bool
}

func newLedger(names []string) *ledger {
	return &ledger{
		names: names, sessions: map[string]int64{}, inside: map[string]func() bool{}, condemned: map[string]bool{},
	}
}

// arrive notes the session in which somebody is about to queue up.
func (l *ledger) arrive(name string, session int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[name] = session
}

// enter notes a Grant. Nobody else may have a valid lock then, except one whose
// session is being ended by hand: the server gives the lock on before that one can
// know.
func (l *ledger) enter(name string, grant events.Grant, valid func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, valid := range l.inside {
		if !l.condemned[other] && valid() {
			l.overlaps = append(l.overlaps, fmt.Sprintf("%s was granted the lock while %s held it", name, other))
		}
	}
	l.inside[name] = valid
	l.grants = append(l.grants, tenure{name: name, token: grant.Token, session: grant.Session})
}

// condemn notes that the session of somebody is being ended by hand.
func (l *ledger) condemn(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.condemned[name] = true
}

// leave notes that somebody does not work any more, if he did.
func (l *ledger) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inside, name)
	delete(l.condemned, name)
}

// lose notes that somebody's latest Grant was lost.
func (l *ledger) lose(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range slices.Backward(l.grants) {
		if t.name == name {
			l.grants[i].lost = true
			return
		}
	}
}

// history returns a copy of what was noted.
func (l *ledger) history() []tenure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.grants)
}

// verify returns an error that names each promise that was not kept.
func (l *ledger) verify() error {
	var errs []error
	for _, problem := range slices.Concat(l.overtaken(), l.stale(), l.crowded(), l.idle()) {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}

// overtaken tells who was granted the lock before somebody who had queued up
// earlier. Only first Grants count, and only those of the session in which the
// place was taken: a new session stands at the end.
func (l *ledger) overtaken() (problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, seen := -1, map[string]bool{}
	for _, t := range l.grants {
		if seen[t.name] {
			continue
		}
		seen[t.name] = true
		if t.session != l.sessions[t.name] {
			continue
		}
		place := slices.Index(l.names, t.name)
		if place < last {
			problems = append(problems, fmt.Sprintf("%s was overtaken by %s", t.name, l.names[last]))
		}
		last = max(last, place)
	}
	return problems
}

// stale tells which tokens did not grow.
func (l *ledger) stale() (problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last tenure
	for _, t := range l.grants {
		if t.token <= last.token {
			problems = append(problems, fmt.Sprintf("token %#x of %s came after %#x of %s", t.token, t.name, last.token, last.name))
		}
		last = t
	}
	return problems
}

// crowded tells who was inside with whom.
func (l *ledger) crowded() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.overlaps)
}

// idle tells who did not get to the end of its work, and whether nobody was
// interrupted in it, which is what the program is to show.
func (l *ledger) idle() (problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.names {
		if !slices.ContainsFunc(l.grants, func(t tenure) bool { return t.name == name && !t.lost }) {
			problems = append(problems, name+" never finished its work")
		}
	}
	if !slices.ContainsFunc(l.grants, func(t tenure) bool { return t.lost }) {
		problems = append(problems, "nobody lost the lock, although a session was ended")
	}
	return problems
}
