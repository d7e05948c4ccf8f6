package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The process of a contestant is asked by lines such as "cycle /bench/x 500" and answers each with one line: "ok" and
// whole numbers, or "no" and the reason. Times are in nanoseconds.
const (
	// askOpen opens so many sessions: n.
	askOpen = "open"
	// askUse has everything until askClose use this kind of lock, of this size: its name instead of a path, n.
	askUse = "use"
	// askCycle acquires and releases in a loop: path, n. The answer is how long each took.
	askCycle = "cycle"
	// askAwaited is askCycle with each release waited for.
	askAwaited = "awaited"
	// askMany has so many goroutines or threads do so many cycles, each with a lock of its own: path, locks, cycles. The
	// answer is how long all of it took.
	askMany = "many"
	// askManyAwaited is askMany with each release waited for.
	askManyAwaited = "manyawaited"
	// askCrowd is askMany with one lock for all of them.
	askCrowd = "crowd"
	// askTurns has the sessions take turns with one lock: path, turns, cycles in each. The answer is how long all of it
	// took.
	askTurns = "turns"
	// askWalk acquires and releases so many locks, each once, one after the other: path, n. The answer is how long all
	// of it took.
	askWalk = "walk"
	// askArrive has the second session come for a cached lock of the first, and use it once: path, n times, goroutines
	// that use the lock in the first session meanwhile. The answer is how long each time took, up to the grant. Without
	// goroutines the first session keeps the lock, and nobody uses it.
	askArrive = "arrive"
	// askFill adds contenders to the queue at a path, in turn from each session: path, n. The first there ever was has
	// been granted when the answer comes; the others may still be on their way.
	askFill = "fill"
	// askDrain hands the lock on: n times. The answer is how long each time took, from before the release to the grant.
	askDrain = "drain"
	// askBytes answers how much went over the process's connections so far, both ways.
	askBytes = "bytes"
	// askCalls answers how many system calls have read from the process's connections so far, how many have written, and
	// how many objects the process has allocated.
	askCalls = "calls"
	// askHold takes locks and keeps them: path, n. The answer is by how many bytes memory grew, and by how many
	// goroutines or threads the process.
	askHold = "hold"
	// askHeld answers anew what askHold has answered, of the locks that are kept.
	askHeld = "held"
	// askExpire takes locks and has the session expire: path, n. The answer is how long after the first loss the last
	// was told.
	askExpire = "expire"
	// askClose ends all sessions.
	askClose = "close"
)

// The kinds of lock for askUse.
const (
	kindMutex     = "mutex"     // if nothing else was asked for
	kindCached    = "cached"    // a mutex that is kept while nobody else wants it
	kindSemaphore = "semaphore" // one permit of so many
	kindMulti     = "multi"     // so many mutexes at once, at paths that begin with the one in the question
	kindElection  = "election"  // of a leader, which resigns
)

// use is a kind of lock and its size.
type use struct {
	kind string
	size int
}

// errRefused is that a contestant answered with a reason.
var errRefused = errors.New("refused")

// formatAnswer is the line for what has become of a question.
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

// parseAnswer reads what formatAnswer has written, here or in another language.
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

// question is what a contestant was asked.
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

// parseQuestion reads what String has written.
func parseQuestion(line string) (question, error) {
	var q question
	if _, err := fmt.Sscanf(line, "%s %s %d %d", &q.verb, &q.path, &q.n, &q.also); err != nil {
		return question{}, fmt.Errorf("a question that is none: %.100q: %w", line, err)
	}
	return q, nil
}
