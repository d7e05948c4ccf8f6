package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A contestant's process gets questions such as "cycle /bench/x 500 0", and answers each
// with one line: "ok" and whole numbers, or "no" and the reason. Times are in
// nanoseconds. What each question has, and what its answer:
//
//	open - n            opens n sessions
//	use kind size       selects a kind of lock until close
//	cycle path n        acquires and releases in a loop: the time of each cycle
//	awaited path n      the same, with each release awaited
//	many path n also    n goroutines or threads do also cycles, each with its own lock: the time of all of them
//	manyawaited ...     the same, with each release awaited
//	crowd path n also   many with one lock for all of them
//	turns path n also   the sessions take n turns with one lock, also cycles in each: the time of all of them
//	walk path n         acquires and releases n locks, each once, one after the other: the time of all of them
//	arrive path n also  the second session comes n times for a cached lock of the first, which also goroutines use there, or none:
//	                    the time of each visit, up to the grant
//	fill path n         adds contenders to the queue at a path, in turn from each session. When the answer comes, the first contender of
//	                    all has been granted; the others may still be on their way
//	drain - n           hands the lock on n times: the time of each handoff, from before the release to the grant
//	bytes               how many bytes went over the process's connections so far, both ways
//	calls               how many system calls have read from these connections so far, how many have written, and how many objects
//	                    the process has allocated
//	hold path n         takes locks and keeps them: the growth of the memory in bytes, and of the number of goroutines or threads
//	held                that anew, for the kept locks
//	expire path n       takes locks and ends the session: the time from the first report of a loss to the last
//	close               ends all sessions
const (
	askOpen        = "open"
	askUse         = "use"
	askCycle       = "cycle"
	askAwaited     = "awaited"
	askMany        = "many"
	askManyAwaited = "manyawaited"
	askCrowd       = "crowd"
	askTurns       = "turns"
	askWalk        = "walk"
	askArrive      = "arrive"
	askFill        = "fill"
	askDrain       = "drain"
	askBytes       = "bytes"
	askCalls       = "calls"
	askHold        = "hold"
	askHeld        = "held"
	askExpire      = "expire"
	askClose       = "close"
)

// The kinds of lock for askUse.
const (
	kindMutex     = "mutex"     // the default
	kindCached    = "cached"    // a mutex that is kept while no other contender wants it
	kindSemaphore = "semaphore" // one of n permits
	kindMulti     = "multi"     // n mutexes at once, at paths that begin with the one in the question
	kindElection  = "election"  // of a leader, which resigns
)

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
