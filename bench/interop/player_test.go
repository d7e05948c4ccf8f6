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

// player is a process with contenders of one family. It ends with the test, which fails if it does not end well.
type player struct {
	family  family
	process *peers.Process

	mu         sync.Mutex
	contenders map[string]*contender
	strange    []error // what it said to nobody
	deaf       chan struct{}
}

// contender is one who queues up. Its methods belong to one goroutine, except order, which belongs to all.
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
		closed := p.process.Close() // behind which nothing is heard any more
		if err := errors.Join(append(p.strange, closed)...); err != nil {
			tb.Errorf("the player of %s ended with %v, want no error", f, err)
		}
		if said := p.process.Complaints(); said != "" && tb.Failed() {
			tb.Logf("%s complained:\n%s", f, said)
		}
	})
	return p
}

// hear hands the news to the contender that they are about.
func (p *player) hear(line peers.Line) {
	n, err := parseNews(line.Text)
	p.mu.Lock()
	c := p.contenders[n.contender]
	if err == nil && c == nil {
		err = fmt.Errorf("news of nobody: %q", line.Text)
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

// open orders a contender to connect. It is ready when opened has returned.
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

// next waits for news of the contender. It is an error if they are not one of these words.
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
