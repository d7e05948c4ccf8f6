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

// patience bounds a single step that has to happen. It ends a hang, and is far too long for a busy machine. A sequence of many steps has no
// bound as a whole.
const patience = 3 * time.Minute

// endless is how long a contender waits for a lock that it will get. A hang ends before that.
const endless = time.Hour

// moment is how long a test watches for what must not happen. That would take a few milliseconds.
const moment = 300 * time.Millisecond

// stage is a lock at which contenders do one thing after the other, as a test tells them. It belongs to the test's goroutine.
type stage struct {
	t       *testing.T
	arena   *arena
	dir     string
	players map[family]*player
	opened  int
}

// some returns the scenes to play: one by default, all at full length.
func some[T any](scenes []T) []T { return scenes[:eventstest.Amount(1, len(scenes))] }

// set makes a stage with its own path.
func (a *arena) set(t *testing.T) *stage {
	t.Helper()
	return &stage{
		t: t, arena: a, players: make(map[family]*player),
		dir: "/interop/" + strings.ReplaceAll(t.Name(), "/", "-"),
	}
}

// connect lets a contender come onto the stage.
func (s *stage) connect(f family, what form) *contender {
	s.t.Helper()
	p := s.players[f]
	if p == nil {
		p = s.arena.start(s.t, f)
		s.players[f] = p
	}
	return s.join(p, what)
}

// alone lets a contender come onto the stage in its own process, which may be killed.
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

// acquire makes a contender ask for its lock, and does not wait.
func (s *stage) acquire(c *contender) {
	s.t.Helper()
	s.acquireWithin(c, endless)
}

// acquireWithin makes a contender ask for its lock, and give up after a while.
func (s *stage) acquireWithin(c *contender, wait time.Duration) {
	s.t.Helper()
	s.order(c, orderTry, strconv.FormatInt(wait.Milliseconds(), 10))
}

// queueUp makes a contender ask for its lock, and waits until its node exists. So the next contender is behind it.
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

// until repeats ask until there is no error.
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

// says waits for the contender's next word, and checks it.
func (s *stage) says(c *contender, word string) {
	s.t.Helper()
	ctx, cancel := s.patience()
	defer cancel()
	if _, err := c.next(ctx, word); err != nil {
		s.t.Fatal(err)
	}
}

// goes lets a contender that is inside, or has become a reader there, come to the end of its section. There it still has the lock.
func (s *stage) goes(c *contender) {
	s.t.Helper()
	s.order(c, orderGo)
	s.says(c, newsLeave)
}

// shares lets a contender that is inside become a reader, if its form can.
func (s *stage) shares(c *contender) {
	s.t.Helper()
	if c.form.downgrades() {
		s.order(c, orderGo)
		s.says(c, newsShare)
	}
}

// leaves makes a contender release its lock.
func (s *stage) leaves(c *contender) {
	s.t.Helper()
	s.order(c, orderOK)
	s.says(c, newsIdle)
}

// enters makes a contender acquire its lock.
func (s *stage) enters(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.says(c, newsEnter)
}

// departs lets a contender that is inside come to the end of its section and release its lock.
func (s *stage) departs(c *contender) {
	s.t.Helper()
	s.goes(c)
	s.leaves(c)
}

// visits makes a contender acquire its lock and release it.
func (s *stage) visits(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.passes(c)
}

// passes waits until the contender is inside, and lets it leave again.
func (s *stage) passes(c *contender) {
	s.t.Helper()
	s.says(c, newsEnter)
	s.shares(c)
	s.departs(c)
}

// silent checks that none of the contenders says anything for a moment.
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
