package interop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// player is a process with contenders of one family. It ends with the test. A bad end fails the test.
type player struct {
	family  family
	process *peers.Process

	mu         sync.Mutex
	contenders map[string]*contender
	strange    []error // lines about no contender
	deaf       chan struct{}
}

// contender is a player's contender. Its methods belong to one goroutine, except order, which any goroutine may call.
type contender struct {
	name    string
	form    form
	path    string
	session int64 // of its nodes; set by opened

	player *player
	heard  chan news
}

// start runs a player.
func (a *arena) start(tb testing.TB, f family) *player {
	tb.Helper()
	return a.startFor(tb, f, longSession)
}

// startMortal runs a player that will be killed.
func (a *arena) startMortal(tb testing.TB, f family) *player {
	tb.Helper()
	return a.startFor(tb, f, shortSession)
}

func (a *arena) startFor(tb testing.TB, f family, timeout time.Duration) *player {
	tb.Helper()
	p := &player{family: f, contenders: make(map[string]*contender), deaf: make(chan struct{})}
	var err error
	if p.process, err = peers.Start(a.command(tb, f, timeout), p.hear); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		close(p.deaf)
		closed := p.process.Close() // after it, nothing is heard any more
		if err := errors.Join(append(p.strange, closed)...); err != nil {
			tb.Errorf("the player of %s ended with %v, want no error", f, err)
		}
		if said := p.process.Complaints(); said != "" && tb.Failed() {
			tb.Logf("%s complained:\n%s", f, said)
		}
	})
	return p
}

// hear gives the news to the contender that they are about.
func (p *player) hear(line peers.Line) {
	n, err := parseNews(line.Text)
	p.mu.Lock()
	c := p.contenders[n.contender]
	if err == nil && c == nil {
		err = fmt.Errorf("news of an unknown contender: %q", line.Text)
	}
	if err != nil {
		p.strange = append(p.strange, err)
	}
	p.mu.Unlock()
	if err == nil {
		select {
		case c.heard <- n:
		case <-p.deaf:
		}
	}
}

// open orders a contender to connect. It is ready when opened returns.
func (p *player) open(name string, f form, path string) (*contender, error) {
	c := &contender{name: name, form: f, path: path, player: p, heard: make(chan news, 8)}
	p.mu.Lock()
	p.contenders[name] = c
	p.mu.Unlock()
	return c, c.order(orderOpen, string(f), path)
}

// opened waits for the session.
func (c *contender) opened(ctx context.Context) error {
	n, err := c.next(ctx, newsOpened)
	if err != nil {
		return err
	}
	c.session, err = strconv.ParseInt(n.text, 10, 64)
	return err
}

// order gives the contender an order.
func (c *contender) order(word string, more ...string) error {
	return c.player.process.Say(strings.Join(append([]string{word, c.name}, more...), " "))
}

// next waits for news of the contender. Any other word is an error.
func (c *contender) next(ctx context.Context, words ...string) (news, error) {
	select {
	case n := <-c.heard:
		return n, c.check(n, words)
	case <-c.player.process.Ended():
		select {
		case n := <-c.heard:
			return n, c.check(n, words)
		default:
			return news{}, fmt.Errorf("the process of %s has ended: %s", c.name, c.player.process.Complaints())
		}
	case <-ctx.Done():
		return news{}, fmt.Errorf("no news of %s, which was to say one of %q: %w", c.name, words, context.Cause(ctx))
	}
}

func (c *contender) check(n news, words []string) error {
	for _, word := range words {
		if n.word == word {
			return nil
		}
	}
	return fmt.Errorf("%s (%s %s) said %s %s and not %q", c.name, c.player.family, c.form, n.word, n.text, words)
}

// Lines to a player are orders, lines from it are news. The second word is the contender that they are about.
//
//	open c form path   connect a session, and make the lock object   opened c session, as a signed decimal
//	run c              enter again and again, until told to stop     enter c ... leave c, each section
//	try c ms           enter once, with a wait of ms at most         enter c ... leave c ... idle c; or busy c
//	go c               the answer to enter and share
//	ok c               the answer to leave, behind which the lock is released
//	revoke c node      ask the owner of the node to release it
//	stop c             finish the section, and end the session       stopped c
//
// A contender that downgrades says share c in the middle of a section, when it has become a reader as well, and gives up writing when
// it is told to go. A revocable contender says revoked c when it is asked for the lock. An error is fail c and a text, and nothing
// follows it.
//
// The process ends when its input does, and leaves its waiters where they are.
const (
	orderOpen   = "open"
	orderRun    = "run"
	orderTry    = "try"
	orderGo     = "go"
	orderOK     = "ok"
	orderRevoke = "revoke"
	orderStop   = "stop"

	newsOpened  = "opened"
	newsEnter   = "enter"
	newsShare   = "share"
	newsLeave   = "leave"
	newsRevoked = "revoked"
	newsIdle    = "idle"
	newsBusy    = "busy"
	newsStopped = "stopped"
	newsFail    = "fail"
)

// news is what a player says of one of its contenders.
type news struct {
	word, contender, text string
}

// parseNews reads a line.
func parseNews(line string) (news, error) {
	fields := strings.SplitN(line, " ", 3)
	if len(fields) < 2 {
		return news{}, fmt.Errorf("news that are none: %.100q", line)
	}
	n := news{word: fields[0], contender: fields[1]}
	if len(fields) > 2 {
		n.text = fields[2]
	}
	return n, nil
}

// form is what a contender takes: a mutex, a side of a read/write lock, or a permit.
type form string

const (
	formMutex          form = "mutex"
	formCached         form = "mutex-cached"    // ours: it keeps its node while no other contender comes
	formRevocable      form = "mutex-revocable" // ours and Curator's: it reports when it is asked back
	formRead           form = "read"
	formWrite          form = "write"
	formDowngrade      form = "downgrade"
	formInPlace        form = "downgrade-in-place" // Curator's: as in versions from 5.5 on
	formSemaphoreMutex form = "semaphore-mutex"
	formLock           form = "lock"
	formLockExtra      form = "lock-extra" // kazoo's Lock, with the names of all other mutexes
	formLockAll        form = "lock-all"   // and of read/write locks
	formReadAgain      form = "read-again" // kazoo's ReadLock, which gives up after a while and queues anew
	formWriteLock      form = "writelock"

	// zkgrant's with kazoo's names.
	formMutexKazoo form = "mutex-kazoo"
	formReadKazoo  form = "read-kazoo"
	formWriteKazoo form = "write-kazoo"
)

// semaphore is the form of one permit of that many.
func semaphore(permits int) form { return form("semaphore:" + strconv.Itoa(permits)) }

// several is the form of several permits at once.
func several(takes, permits int) form { return semaphore(permits) + form("x"+strconv.Itoa(takes)) }

// permits returns the size of a semaphore, and how many permits the form takes; 0 and 1 if it is no semaphore.
func (f form) permits() (permits, takes int) {
	if f == formSemaphoreMutex {
		return 1, 1
	}
	text, ok := strings.CutPrefix(string(f), "semaphore:")
	if !ok {
		return 0, 1
	}
	size, count, ok := strings.Cut(text, "x")
	if !ok {
		count = "1"
	}
	permits, bad := strconv.Atoi(size)
	takes, worse := strconv.Atoi(count)
	if bad != nil || worse != nil {
		return 0, 1
	}
	return permits, takes
}

// shared tells whether several contenders of the form hold together.
func (f form) shared() bool {
	return f == formRead || strings.HasPrefix(string(f), string(formRead)+"-")
}

// downgrades tells whether the form is a writer that becomes a reader.
func (f form) downgrades() bool { return f == formDowngrade || f == formInPlace }
