package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/events"
)

// ledger records the holders, to check afterwards that the promises were kept. arrive,
// enter, leave and lose may be called from any goroutine, the other methods only after
// all contenders have ended.
type ledger struct {
	names []string // in the order in which they queued up

	mu       sync.Mutex
	sessions map[string]int64       // the session in which each contender queued up
	inside   map[string]func() bool // the contenders at work, and whether their locks are valid
	grants   []tenure
	overlaps []string
}

// tenure is one period during which a contender held the lock.
type tenure struct {
	name    string
	token   int64
	session int64
	lost    bool
	next    chan struct{} // closed at the next Grant
}

func newLedger(names []string) *ledger {
	return &ledger{names: names, sessions: map[string]int64{}, inside: map[string]func() bool{}}
}

// arrive records the session in which a contender is about to queue up.
func (l *ledger) arrive(name string, session int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[name] = session
}

// enter records a Grant, and a problem if another contender still has a valid lock. The
// returned channel is closed at the next Grant.
func (l *ledger) enter(name string, grant events.Grant, valid func() bool) (next <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, valid := range l.inside {
		if valid() {
			l.overlaps = append(l.overlaps, fmt.Sprintf("%s was granted the lock while %s held it", name, other))
		}
	}
	l.inside[name] = valid
	if n := len(l.grants); n > 0 {
		close(l.grants[n-1].next)
	}
	t := tenure{name: name, token: grant.Token, session: grant.Session, next: make(chan struct{})}
	l.grants = append(l.grants, t)
	return t.next
}

// leave records that a contender has stopped its work.
func (l *ledger) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inside, name)
}

// lose records that a contender's latest Grant was lost.
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

// history lists the Grants.
func (l *ledger) history() (grants []string) {
	for _, t := range l.grants {
		grant := fmt.Sprintf("%s %#x", t.name, t.token)
		if t.lost {
			grant += " (lost)"
		}
		grants = append(grants, grant)
	}
	return grants
}

// verify returns an error that names each promise that was not kept.
func (l *ledger) verify() error {
	var errs []error
	for _, problem := range slices.Concat(l.overtaken(), l.stale(), l.overlaps, l.idle()) {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}

// overtaken reports each contender that was overtaken by a later one. Only first Grants
// count, and only in the session in which the contender queued up: a new session starts
// at the end of the queue.
func (l *ledger) overtaken() (problems []string) {
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

// stale reports the tokens that did not grow.
func (l *ledger) stale() (problems []string) {
	var last tenure
	for _, t := range l.grants {
		if t.token <= last.token {
			problems = append(problems, fmt.Sprintf("token %#x of %s came after %#x of %s", t.token, t.name, last.token, last.name))
		}
		last = t
	}
	return problems
}

// idle reports the contenders that did not finish their work. It also reports a problem
// if no contender was interrupted, because the program is meant to show that.
func (l *ledger) idle() (problems []string) {
	for _, name := range l.names {
		if !slices.ContainsFunc(l.grants, func(t tenure) bool { return t.name == name && !t.lost }) {
			problems = append(problems, name+" never finished its work")
		}
	}
	if !slices.ContainsFunc(l.grants, func(t tenure) bool { return t.lost }) {
		problems = append(problems, "no contender lost the lock, although one was cut off")
	}
	return problems
}
