package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// patience is how long a single thing may take that has to happen. It ends a hang, and is far too long for a busy machine. Nothing
// that consists of many things is limited as a whole.
const patience = 3 * time.Minute

// endless is how long a contender waits for a lock that it is to have in the end. A hang ends before that.
const endless = time.Hour

// moment is how long something is watched for that must not happen. What would happen takes a few milliseconds.
const moment = 300 * time.Millisecond

// stage is a lock at which contenders do one thing after the other, as a test tells them. It belongs to the test's
// goroutine.
type stage struct {
	t       *testing.T
	arena   *arena
	dir     string
	players map[family]*player
	opened  int
}

// some returns the scenes that are played: one by default, all at full length.
func some[T any](scenes []T) []T { return scenes[:eventstest.Amount(1, len(scenes))] }

// set makes a stage with a path of its own.
func (a *arena) set(t *testing.T) *stage {
	t.Helper()
	return &stage{
		t: t, arena: a, players: make(map[family]*player),
		dir: "/interop/" + strings.ReplaceAll(t.Name(), "/", "-"),
	}
}

// connect has a contender come onto the stage.
func (s *stage) connect(f family, what form) *contender {
	s.t.Helper()
	p := s.players[f]
	if p == nil {
		p = s.arena.start(s.t, f)
		s.players[f] = p
	}
	return s.join(p, what)
}

// alone has a contender come onto the stage in a process of its own, which may be killed.
func (s *stage) alone(f family, what form) *contender {
	s.t.Helper()
	return s.join(s.arena.startMortal(s.t, f), what)
}

func (s *stage) join(p *player, what form) *contender {
	s.t.Helper()
	s.opened++
	c, err := p.open(fmt.Sprintf("%s-%s-%d", p.family, what, s.opened), what, s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := s.patience()
	defer cancel()
	if err := c.opened(ctx); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.t.Context(), patience, fmt.Errorf("not within %v", patience))
}

// order gives an order.
func (s *stage) order(c *contender, word string, more ...string) {
	s.t.Helper()
	if err := c.order(word, more...); err != nil {
		s.t.Fatal(err)
	}
}

// acquire has a contender ask for its lock, and does not wait.
func (s *stage) acquire(c *contender) {
	s.t.Helper()
	s.acquireWithin(c, endless)
}

// acquireWithin has a contender ask for its lock, and give up after a while.
func (s *stage) acquireWithin(c *contender, wait time.Duration) {
	s.t.Helper()
	s.order(c, orderTry, strconv.FormatInt(wait.Milliseconds(), 10))
}

// queueUp has a contender ask for its lock, and waits until its node is there. So the next one is behind it.
func (s *stage) queueUp(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.appears(c, s.dir)
}

// appears waits until the contender has one node in the directory.
func (s *stage) appears(c *contender, dir string) {
	s.t.Helper()
	s.until(func() error {
		_, _, err := s.arena.witness.nodeOf(dir, c.session, 1)
		return err
	})
}

// until asks until there is no error.
func (s *stage) until(ask func() error) {
	s.t.Helper()
	var err error
	defer func() {
		if err != nil {
			s.t.Error(err)
		}
	}()
	eventstest.Eventually(s.t, "what is asked of the server is so", func() bool {
		err = ask()
		return err == nil
	})
}

// says waits for a contender's next word, which must be this one.
func (s *stage) says(c *contender, word string) {
	s.t.Helper()
	ctx, cancel := s.patience()
	defer cancel()
	if _, err := c.next(ctx, word); err != nil {
		s.t.Fatal(err)
	}
}

// goes lets a contender that is inside, or that has become a reader there, come to the end of its section, where it
// still has the lock.
func (s *stage) goes(c *contender) {
	s.t.Helper()
	s.order(c, orderGo)
	s.says(c, newsLeave)
}

// shares lets a contender that is inside become a reader, if its form is one that does.
func (s *stage) shares(c *contender) {
	s.t.Helper()
	if c.form.downgrades() {
		s.order(c, orderGo)
		s.says(c, newsShare)
	}
}

// leaves has a contender release its lock.
func (s *stage) leaves(c *contender) {
	s.t.Helper()
	s.order(c, orderOK)
	s.says(c, newsIdle)
}

// enters has a contender acquire its lock.
func (s *stage) enters(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.says(c, newsEnter)
}

// departs has a contender that is inside come to the end of its section and release its lock.
func (s *stage) departs(c *contender) {
	s.t.Helper()
	s.goes(c)
	s.leaves(c)
}

// visits has a contender acquire its lock and release it.
func (s *stage) visits(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.passes(c)
}

// passes waits until the contender is inside, and has it leave again.
func (s *stage) passes(c *contender) {
	s.t.Helper()
	s.says(c, newsEnter)
	s.shares(c)
	s.departs(c)
}

// silent sees that none of them says anything for a moment.
func (s *stage) silent(cs ...*contender) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), moment)
	defer cancel()
	<-ctx.Done()
	for _, c := range cs {
		select {
		case n := <-c.heard:
			s.t.Errorf("%s (%s %s) should wait, and says %s %s", c.name, c.player.family, c.form, n.word, n.text)
		default:
		}
	}
}

// clears waits until no node is left.
func (s *stage) clears(dir string) {
	s.t.Helper()
	s.until(func() error {
		left, err := s.arena.witness.children(dir)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left in %s: %q", dir, left)
		}
		return err
	})
}
