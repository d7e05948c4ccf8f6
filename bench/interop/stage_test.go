package interop

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

const (
	// patience bounds a single step that must happen. It only ends a hang, and is long
	// enough for any busy machine. A sequence of many steps has no overall bound.
	patience = 3 * time.Minute
	// moment is how long a test watches for something that must not happen, which would
	// take a few milliseconds.
	moment = 300 * time.Millisecond
	// endless makes a contender wait for its lock without limit.
	endless = -time.Millisecond
)

// stage is a lock at which contenders act one at a time, as directed by a test. It
// belongs to the test's goroutine.
type stage struct {
	t       *testing.T
	arena   *arena
	dir     string
	players map[family]*player
	opened  int
}

// some returns the scenes to play: one by default, all at full length.
func some[T any](scenes []T) []T { return scenes[:eventstest.Amount(1, len(scenes))] }

// scenes plays a scene for each of the things, in parallel. Each has its own path.
func scenes[T any](t *testing.T, things []T, scene func(s *stage, thing T)) {
	t.Helper()
	for _, thing := range some(things) {
		t.Run(fmt.Sprint(thing), func(t *testing.T) {
			t.Parallel()
			dir := "/interop/" + strings.NewReplacer("/", "-", "{", "", "}", "", "[", "", "]", "").Replace(t.Name())
			scene(&stage{t: t, arena: enter(t), players: make(map[family]*player), dir: dir}, thing)
		})
	}
}

func (s *stage) connect(f family, what form) *contender {
	s.t.Helper()
	if s.players[f] == nil {
		s.players[f] = s.arena.start(s.t, f, s.arena.addr)
	}
	return s.join(s.players[f], what)
}

// alone adds a contender with its own process, which may be killed.
func (s *stage) alone(f family, what form) *contender {
	s.t.Helper()
	return s.join(s.arena.start(s.t, f, s.arena.addr, shortSession), what)
}

func (s *stage) join(p *player, what form) (c *contender) {
	s.t.Helper()
	s.opened++
	s.must(func(ctx context.Context) (err error) {
		c, err = p.open(ctx, fmt.Sprintf("%s-%s-%s-%d", p.family, what, path.Base(s.dir), s.opened), what, s.dir)
		return err
	})
	return c
}

// must runs a step. It ends the test if the step fails or takes too long.
func (s *stage) must(step func(ctx context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	eventstest.Must(s.t, step(ctx))
}

func (s *stage) does(c *contender, word string, more ...string) {
	s.t.Helper()
	s.must(func(ctx context.Context) error { return c.do(ctx, word, more...) })
}

// says waits for the contender's next news, and checks its word.
func (s *stage) says(c *contender, word string) {
	s.t.Helper()
	s.must(func(ctx context.Context) error { return c.says(ctx, word) })
}

// acquire makes a contender request its lock, and does not wait.
func (s *stage) acquire(c *contender) {
	s.t.Helper()
	eventstest.Must(s.t, c.ask(endless))
}

// queueUp makes a contender request its lock, and waits until its node exists, so that
// the next contender comes after it.
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

// until repeats ask until it returns no error.
func (s *stage) until(ask func() error) {
	s.t.Helper()
	var err error
	eventstest.Eventually(s.t, "what is asked of the server is so", func() bool {
		err = ask()
		return err == nil
	}, func() string { return fmt.Sprint(err) })
}

func (s *stage) enters(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.says(c, orderAcquire)
}

func (s *stage) leaves(c *contender) {
	s.t.Helper()
	s.does(c, orderRelease)
}

func (s *stage) visits(c *contender) {
	s.t.Helper()
	s.acquire(c)
	s.passes(c)
}

// passes waits until the contender is inside, and makes it leave again.
func (s *stage) passes(c *contender) {
	s.t.Helper()
	s.says(c, orderAcquire)
	if c.form.downgrades() {
		s.does(c, orderShares)
		s.does(c, orderShare)
	}
	s.leaves(c)
}

// silent checks that no contender says anything for a moment.
func (s *stage) silent(cs ...*contender) {
	s.t.Helper()
	<-time.After(moment)
	for _, c := range cs {
		select {
		case n := <-c.heard:
			s.t.Errorf("%v should wait, and says %s %s", c, n.word, n.text)
		default:
		}
	}
}

// remain waits until exactly that many nodes are left.
func (s *stage) remain(nodes int) {
	s.t.Helper()
	s.until(func() error {
		left, err := s.arena.witness.children(s.dir)
		if err == nil && len(left) != nodes {
			err = fmt.Errorf("left in %s: %q, want %d", s.dir, left, nodes)
		}
		return err
	})
}
