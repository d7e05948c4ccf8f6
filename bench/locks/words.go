package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A contestant's process gets questions such as "cycle /bench/x 500", and answers each with one line: "ok" and whole numbers, or "no" and
// the reason. Times are in nanoseconds.
const (
	// askOpen opens n sessions.
	askOpen = "open"
	// askUse selects a kind of lock and its size until askClose: its name instead of a path, n.
	askUse = "use"
	// askCycle acquires and releases in a loop: path, n. The answer is the time of each cycle.
	askCycle = "cycle"
	// askAwaited is askCycle with each release awaited.
	askAwaited = "awaited"
	// askMany lets that many goroutines or threads do cycles, each with its own lock: path, locks, cycles. The answer is the time of all
	// of them.
	askMany = "many"
	// askManyAwaited is askMany with each release awaited.
	askManyAwaited = "manyawaited"
	// askCrowd is askMany with one lock for all of them.
	askCrowd = "crowd"
	// askTurns lets the sessions take turns with one lock: path, turns, cycles in each. The answer is the time of all of them.
	askTurns = "turns"
	// askWalk acquires and releases n locks, each once, one after the other: path, n. The answer is the time of all of them.
	askWalk = "walk"
	// askArrive lets the second session come for a cached lock of the first, and use it once: path, n times, goroutines that use the lock
	// in the first session meanwhile. The answer is the time of each visit, up to the grant. Without goroutines the first session keeps
	// the lock idle.
	askArrive = "arrive"
	// askFill adds contenders to the queue at a path, in turn from each session: path, n. When the answer comes, the first contender of all
	// has been granted; the others may still be on their way.
	askFill = "fill"
	// askDrain hands the lock on n times. The answer is the time of each handoff, from before the release to the grant.
	askDrain = "drain"
	// askBytes answers how many bytes went over the process's connections so far, both ways.
	askBytes = "bytes"
	// askCalls answers how many system calls have read from the process's connections so far, how many have written, and
	// how many objects the process has allocated.
	askCalls = "calls"
	// askHold takes locks and keeps them: path, n. The answer is the growth of the memory in bytes, and of the number of goroutines or
	// threads.
	askHold = "hold"
	// askHeld answers anew what askHold has answered, for the kept locks.
	askHeld = "held"
	// askExpire takes locks and ends the session: path, n. The answer is the time from the first report of a loss to the last.
	askExpire = "expire"
	// askClose ends all sessions.
	askClose = "close"
)

// The kinds of lock for askUse.
const (
	kindMutex     = "mutex"     // the default
	kindCached    = "cached"    // a mutex that is kept while no other contender wants it
	kindSemaphore = "semaphore" // one of n permits
	kindMulti     = "multi"     // n mutexes at once, at paths that begin with the one in the question
	kindElection  = "election"  // of a leader, which resigns
)

// use is a kind of lock and its size.
type use struct {
	kind string
	size int
}

// errRefused means that a contestant answered with a reason.
var errRefused = errors.New("refused")

// formatAnswer is the line for the result of a question.
func formatAnswer(values []int64, err error) string {
	if err != nil {
		return "no " + strings.Join(strings.Fields(err.Error()), " ")
	}
	line := []byte("ok")
	for _, v := range values {
		line = strconv.AppendInt(append(line, ' '), v, 10)
	}
	return string(line)
}

// parseAnswer reads a line of formatAnswer, from here or from another language.
func parseAnswer(line string) ([]int64, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "ok":
	case "no":
		return nil, fmt.Errorf("%w: %s", errRefused, rest)
	default:
		return nil, fmt.Errorf("an answer that is none: %.100q", line)
	}
	fields := strings.Fields(rest)
	values := make([]int64, len(fields))
	for i, field := range fields {
		v, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("an answer that is none: %w", err)
		}
		values[i] = v
	}
	return values, nil
}

// question is a question to a contestant.
type question struct {
	verb    string
	path    string // empty for questions without
	n, also int
}

// String is the line that parseQuestion reads.
func (q question) String() string {
	path := q.path
	if path == "" {
		path = "-"
	}
	return fmt.Sprintf("%s %s %d %d", q.verb, path, q.n, q.also)
}

// parseQuestion reads a line of String.
func parseQuestion(line string) (question, error) {
	var q question
	if _, err := fmt.Sscanf(line, "%s %s %d %d", &q.verb, &q.path, &q.n, &q.also); err != nil {
		return question{}, fmt.Errorf("a question that is none: %.100q: %w", line, err)
	}
	return q, nil
}
