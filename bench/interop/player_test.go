package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// Lines to a player are orders: a word, a contender, and arguments. A contender carries
// out its orders one by one, and answers each with a line: the same word, the contender,
// and possibly a text; or "fail", the contender, and the reason.
//
//	open c form path   create a lock object; the first one connects a session, whose ID
//	                   is the answer's text, as a signed decimal
//	acquire c ms       wait for the lock for at most ms, or without limit if negative;
//	                   the answer is busy if that was too short
//	shares c           a writer also becomes a reader
//	share c            and then only a reader
//	release c
//	revoke c node      request the lock from the owner of the node
//	close c            end the session
//
// A revocable contender may report "revoked c" at any time, when its lock is requested.
// The process exits when its input ends, and abandons its waiters.
const (
	orderOpen    = "open"
	orderAcquire = "acquire"
	orderShares  = "shares"
	orderShare   = "share"
	orderRelease = "release"
	orderRevoke  = "revoke"
	orderClose   = "close"

	newsBusy    = "busy"
	newsRevoked = "revoked"
	newsFail    = "fail"
)

// news is a player's line about one of its contenders.
type news struct{ word, text string }

// player is a process with contenders of one family. It ends with the test. The test
// fails if it exits with an error.
type player struct {
	family  family
	process *peers.Process

	contenders sync.Map // *contender by name
	strange    []error  // lines about unknown contenders; complete once the process has ended
	deaf       chan struct{}
}

// contender is a player's contender. Its methods belong to one goroutine, except order,
// which any goroutine may call.
type contender struct {
	name    string
	form    form
	session int64 // the owner of its nodes
	player  *player
	heard   chan news
}

func (c *contender) String() string {
	return fmt.Sprintf("%s (%s %s)", c.name, c.player.family, c.form)
}

// start runs a player at a server. The default session timeout is longSession.
func (a *arena) start(tb testing.TB, f family, addr string, timeout ...time.Duration) *player {
	tb.Helper()
	p := &player{family: f, deaf: make(chan struct{})}
	var err error
	p.process, err = peers.Start(a.command(tb, f, addr, append(timeout, longSession)[0]), p.hear)
	eventstest.Must(tb, err)
	tb.Cleanup(func() {
		close(p.deaf)
		closed := p.process.Close() // after this, no more lines arrive
		if err := errors.Join(append(p.strange, closed)...); err != nil {
			tb.Errorf("the player of %s ended with %v, want no error", f, err)
		}
		if said := p.process.Complaints(); said != "" && tb.Failed() {
			tb.Logf("%s complained:\n%s", f, said)
		}
	})
	return p
}

// hear passes news to the contender that it is about.
func (p *player) hear(line peers.Line) {
	fields := append(strings.SplitN(line.Text, " ", 3), "", "")
	c, known := p.contenders.Load(fields[1])
	if !known {
		p.strange = append(p.strange, fmt.Errorf("news of no contender: %.100q", line.Text))
		return
	}
	select {
	case c.(*contender).heard <- news{fields[0], fields[2]}:
	case <-p.deaf:
	}
}

func (p *player) open(ctx context.Context, name string, f form, path string) (*contender, error) {
	c := &contender{name: name, form: f, player: p, heard: make(chan news, 8)}
	p.contenders.Store(name, c)
	return c, c.do(ctx, orderOpen, string(f), path)
}

func (c *contender) order(word string, more ...string) error {
	return c.player.process.Say(strings.Join(append([]string{word, c.name}, more...), " "))
}

// ask makes the contender request its lock, and wait without limit if wait is negative.
func (c *contender) ask(wait time.Duration) error {
	return c.order(orderAcquire, strconv.FormatInt(wait.Milliseconds(), 10))
}

// do gives the contender an order, and waits until it is carried out.
func (c *contender) do(ctx context.Context, word string, more ...string) error {
	if err := c.order(word, more...); err != nil {
		return err
	}
	return c.says(ctx, word)
}

// says waits for the contender's next news, which must be that word.
func (c *contender) says(ctx context.Context, word string) error {
	n, err := c.next(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("waiting for %s: %w", word, err)
	case n.word != word:
		return fmt.Errorf("%v said %s %s and not %s", c, n.word, n.text, word)
	case word == orderOpen:
		c.session, err = strconv.ParseInt(n.text, 10, 64)
	}
	return err
}

func (c *contender) next(ctx context.Context) (news, error) {
	select {
	case n := <-c.heard:
		return n, nil
	case <-c.player.process.Ended():
		select {
		case n := <-c.heard:
			return n, nil
		default:
			return news{}, fmt.Errorf("the process of %v has ended: %s", c, c.player.process.Complaints())
		}
	case <-ctx.Done():
		return news{}, fmt.Errorf("no news of %v: %w", c, context.Cause(ctx))
	}
}

// role is a form of a family's lock.
type role struct {
	family family
	form   form
}

func (r role) String() string { return string(r.family) + " " + string(r.form) }

// form is the kind of lock that a contender takes: a mutex, a side of a read/write lock,
// or a permit.
type form string

const (
	formMutex          form = "mutex"
	formCached         form = "mutex-cached"    // zkgrant's cached lock
	formRevocable      form = "mutex-revocable" // zkgrant's and Curator's: it reports revocation requests
	formRead           form = "read"
	formWrite          form = "write"
	formDowngrade      form = "downgrade"
	formInPlace        form = "downgrade-in-place" // Curator's: as from version 5.5 on
	formSemaphoreMutex form = "semaphore-mutex"
	formLock           form = "lock"
	formLockExtra      form = "lock-extra" // kazoo's Lock, with the names of all other mutexes
	formLockAll        form = "lock-all"   // kazoo's Lock, also with the names of read/write locks
	formReadAgain      form = "read-again" // kazoo's ReadLock, which gives up after a while and queues again
	formWriteLock      form = "writelock"
	formElection       form = "election" // zkgrant's and kazoo's
	formSelector       form = "selector" // Curator's LeaderSelector
	formLatch          form = "latch"    // Curator's LeaderLatch

	// zkgrant's forms with kazoo's names.
	formMutexKazoo    form = "mutex-kazoo"
	formReadKazoo     form = "read-kazoo"
	formWriteKazoo    form = "write-kazoo"
	formElectionKazoo form = "election-kazoo"
)

// semaphore returns the form that takes one of that many permits.
func semaphore(permits int) form { return form("semaphore:" + strconv.Itoa(permits)) }

// several returns the form that takes several permits at once.
func several(takes, permits int) form { return semaphore(permits) + form("x"+strconv.Itoa(takes)) }

// permits returns the size of the semaphore, and how many permits the form takes. For
// other forms it returns 0 and 1.
func (f form) permits() (permits, takes int) {
	if f == formSemaphoreMutex {
		return 1, 1
	}
	if _, err := fmt.Sscanf(string(f), "semaphore:%dx%d", &permits, &takes); err != nil {
		takes = 1
	}
	return permits, takes
}

// shared reports whether several contenders of the form may hold at once.
func (f form) shared() bool {
	return slices.Contains([]form{formRead, formReadAgain, formReadKazoo}, f)
}

// downgrades reports whether the form is a writer that becomes a reader.
func (f form) downgrades() bool { return f == formDowngrade || f == formInPlace }
