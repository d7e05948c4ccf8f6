package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// goLock is what a contender of one of the Go libraries does with its lock, always from one goroutine.
type goLock interface {
	session() int64
	// acquire waits for the lock, at most that long, or without end if wait is negative.
	acquire(ctx context.Context, wait time.Duration) (bool, error)
	// lost says that the library has lost the lock.
	lost() <-chan events.Lost
	release() error
	close() error
}

// goSharer is a lock of a form that downgrades.
type goSharer interface {
	// shares becomes a reader as well, and share a reader only.
	shares(ctx context.Context) error
	share() error
}

// goRevocable is a lock that can be asked back. It reports that from its own goroutine, until its session ends.
type goRevocable interface{ revoked(say func()) }

// goPlayer runs contenders of one of the Go libraries.
type goPlayer struct {
	open func(ctx context.Context, f form, path string) (goLock, error)

	mu         sync.Mutex // guards the output, so that lines never mix
	output     io.Writer
	contenders map[string]*goContender
}

type goContender struct {
	name            string
	orders, answers chan string
	stopped         chan struct{}
}

// play carries out the orders until the input ends. A contender that waits then is left where it is.
func (p *goPlayer) play(ctx context.Context, input io.Reader, output io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.output, p.contenders = output, make(map[string]*goContender)
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		if err := p.order(ctx, strings.Fields(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (p *goPlayer) order(ctx context.Context, order []string) error {
	if len(order) < 2 {
		return fmt.Errorf("an order that is none: %q", order)
	}
	name := order[1]
	if order[0] == orderOpen && len(order) == 4 {
		c := &goContender{
			name: name, orders: make(chan string, 8), answers: make(chan string, 8), stopped: make(chan struct{}),
		}
		p.contenders[name] = c
		go func() {
			if err := p.contend(ctx, c, form(order[2]), order[3]); err != nil {
				p.say(newsFail, name, strings.Join(strings.Fields(err.Error()), " "))
			}
		}()
		return nil
	}
	c := p.contenders[name]
	if c == nil {
		return fmt.Errorf("no contender for %q", order)
	}
	switch order[0] {
	case orderGo, orderOK:
		c.answers <- order[0]
	case orderStop:
		close(c.stopped)
	default:
		c.orders <- strings.Join(order, " ")
	}
	return nil
}

func (p *goPlayer) say(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A player that is not heard learns it from the end of its input.
	_, _ = io.WriteString(p.output, strings.Join(words, " ")+"\n")
}

// contend is the life of a contender.
func (p *goPlayer) contend(ctx context.Context, c *goContender, f form, path string) error {
	lock, err := p.open(ctx, f, path)
	if err != nil {
		return err
	}
	p.say(newsOpened, c.name, strconv.FormatInt(lock.session(), 10))
	if l, ok := lock.(goRevocable); ok {
		go l.revoked(func() { p.say(newsRevoked, c.name) })
	}
	for {
		select {
		case order := <-c.orders:
			if err := p.carryOut(ctx, c, lock, strings.Fields(order)); err != nil {
				return err
			}
		case <-c.stopped:
			if err := lock.close(); err != nil {
				return err
			}
			p.say(newsStopped, c.name)
			return nil
		}
	}
}

func (p *goPlayer) carryOut(ctx context.Context, c *goContender, lock goLock, order []string) error {
	switch {
	case order[0] == orderRun:
		for {
			select {
			case <-c.stopped:
				return nil
			default:
			}
			if _, err := lock.acquire(ctx, -1); err != nil {
				return err
			}
			if err := p.section(ctx, c, lock); err != nil {
				return err
			}
		}
	case order[0] == orderTry && len(order) == 3:
		ms, err := strconv.Atoi(order[2])
		if err != nil {
			return err
		}
		entered, err := lock.acquire(ctx, time.Duration(ms)*time.Millisecond)
		if err != nil {
			return err
		}
		if !entered {
			p.say(newsBusy, c.name)
			return nil
		}
		if err := p.section(ctx, c, lock); err != nil {
			return err
		}
		p.say(newsIdle, c.name)
		return nil
	default:
		return fmt.Errorf("an order that is none: %q", order)
	}
}

// section is what happens between an acquisition and the release.
func (p *goPlayer) section(ctx context.Context, c *goContender, lock goLock) error {
	p.say(newsEnter, c.name)
	if err := c.await(orderGo, lock); err != nil {
		return err
	}
	if sharer, ok := lock.(goSharer); ok {
		if err := sharer.shares(ctx); err != nil {
			return err
		}
		p.say(newsShare, c.name)
		if err := c.await(orderGo, lock); err != nil {
			return err
		}
		if err := sharer.share(); err != nil {
			return err
		}
	}
	p.say(newsLeave, c.name)
	if err := c.await(orderOK, lock); err != nil {
		return err
	}
	return lock.release()
}

// await waits for an answer, inside.
func (c *goContender) await(word string, lock goLock) error {
	select {
	case answer := <-c.answers:
		if answer != word {
			return fmt.Errorf("told %s instead of %s", answer, word)
		}
		return nil
	case lost := <-lock.lost():
		return fmt.Errorf("lost: %v", lost.Reason)
	}
}
