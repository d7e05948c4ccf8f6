package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A contestant's process gets questions such as "cycle /bench/x 500 0", and answers each
// with one line: "ok" and integers, or "no" and the reason. Times are in nanoseconds. The
// questions, and what they return:
//
//	open - n            opens n sessions
//	use kind size       selects a kind of lock until close
//	cycle path n        acquires and releases in a loop: the time of each cycle
//	awaited path n      the same, with each release awaited
//	many path n also    n goroutines or threads do also cycles each, with their own locks:
//	                    the total time
//	manyawaited ...     the same, with each release awaited
//	crowd path n also   many, with one lock for all of them
//	turns path n also   the sessions take n turns with one lock, with also cycles in each:
//	                    the total time
//	walk path n         acquires and releases n locks once, one by one: the total time
//	arrive path n also  the second session acquires a cached lock of the first n times,
//	                    while also goroutines of the first use it: the time of each
//	                    visit, up to the grant
//	fill path n         adds contenders to the queue at a path, from each session in turn.
//	                    It answers once the first contender of all has been granted; the
//	                    others may not have queued up yet
//	drain - n           hands the lock on n times: the time of each handoff, from before
//	                    the release to the grant
//	bytes               the bytes sent and received on the process's connections so far
//	calls               the system calls that have read from these connections so far,
//	                    those that have written, and the objects allocated by the process
//	hold path n         takes locks and keeps them: the growth of the memory in bytes, and
//	                    of the number of goroutines or threads
//	held                the same figures again, for the kept locks
//	expire path n       takes locks and ends the session: the time from the first report
//	                    of a loss to the last
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
	kindCached    = "cached"    // a mutex that is kept while no other contender requests it
	kindSemaphore = "semaphore" // one of n permits
	kindMulti     = "multi"     // n mutexes at once, at paths that begin with the one in the question
	kindElection  = "election"  // a leader's term; the release resigns
)

type use struct {
	kind string
	size int
}

// errRefused means that a contestant answered "no".
var errRefused = errors.New("refused")

// formatAnswer returns the answer line for a result.
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

// parseAnswer parses a line of formatAnswer, or of a player in another language.
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
	path    string // empty if the question has none
	n, also int
}

// String returns the line that parseQuestion parses.
func (q question) String() string {
	path := q.path
	if path == "" {
		path = "-"
	}
	return fmt.Sprintf("%s %s %d %d", q.verb, path, q.n, q.also)
}

// parseQuestion parses a line of question.String.
func parseQuestion(line string) (question, error) {
	var q question
	if _, err := fmt.Sscanf(line, "%s %s %d %d", &q.verb, &q.path, &q.n, &q.also); err != nil {
		return question{}, fmt.Errorf("a question that is none: %.100q: %w", line, err)
	}
	return q, nil
}
