package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// tables is how many meetings take place at a time. Most of their time is a wait for what must not happen.
const tables = 12

// TestMatrix lets every contender come to a lock that another one holds, each played by its own library, and compares the outcome with the
// verdicts. If the newcomer enters beside the holder, that is seen while the holder is inside. If it waits, that is seen by its node, a
// moment without news, and its entry when the holder has left. Each meeting has its own path. By default, one holder of each name meets the
// first form of each family. At full length, all meet all.
func TestMatrix(t *testing.T) {
	t.Parallel()
	a := enter(t)
	players := make(map[family]*player)
	for _, r := range acquirers() {
		if players[r.family] == nil {
			players[r.family] = a.start(t, r.family)
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, tables)
	began, n := time.Now(), 0
	for _, row := range verdicts() {
		holders := row.holders
		if holders == nil {
			holders = []role{{form: form(row.name)}}
		}
		for _, holds := range some(holders) {
			for i, comes := range acquirers() {
				if !eventstest.Full() && i > 0 && acquirers()[i-1].family == comes.family {
					continue
				}
				n++
				m := meeting{
					arena: a, players: players, holds: holds, comes: comes, stranger: row.holders == nil,
					name: fmt.Sprintf("meeting-%d", n), dir: fmt.Sprintf("/interop/matrix/%d", n),
				}
				places <- struct{}{}
				all.Go(func() {
					defer func() { <-places }()
					switch got, err := m.play(t.Context(), row.of(i)); {
					case err != nil:
						t.Errorf("%v held by %v, %v comes: %v", m.dir, m.holds, m.comes, err)
					case got != row.of(i):
						t.Errorf("%v held by %v, %v comes: %c, and not %c", m.dir, m.holds, m.comes, got, row.of(i))
					}
				})
			}
		}
	}
	all.Wait()
	t.Logf("%d meetings in %v", n, time.Since(began).Round(time.Millisecond))
}

// meeting is a holder of a lock, and a newcomer.
type meeting struct {
	arena        *arena
	players      map[family]*player
	holds, comes role
	stranger     bool // the holder is no contender but a child of the directory, named by the form
	name, dir    string
}

// play returns the newcomer's outcome. If it is expected to wait, it is watched for a moment. Else it may take its time: on a busy machine
// a moment is not enough.
func (m *meeting) play(ctx context.Context, expected verdict) (verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("%s: not over within %v", m.name, 2*patience))
	defer cancel()
	leave, err := m.hold(ctx)
	if err != nil {
		return 0, fmt.Errorf("the holder: %w", err)
	}
	c, err := m.seat(ctx, m.comes, "comes")
	if err != nil {
		return 0, err
	}
	long := moment
	if expected != waits {
		long = patience
	}
	first, heard, err := m.watch(ctx, c, long)
	switch {
	case err != nil:
		return 0, err
	case !heard: // it waits
		if err := leave(); err != nil {
			return 0, fmt.Errorf("the holder: %w", err)
		}
		if _, err := c.next(ctx, newsEnter); err != nil {
			return 0, err
		}
		return waits, m.end(ctx, c)
	case first.word == newsEnter:
		if err := m.end(ctx, c); err != nil {
			return 0, err
		}
		return enters, leave()
	case first.word == newsFail && strings.HasPrefix(first.text, coordinator.ErrKind.Error()):
		if there, err := m.hasNode(c); err != nil || there {
			return 0, fmt.Errorf("it has left its node: %v, %w", there, err)
		}
		return refuses, leave()
	case first.word == newsFail:
		return fails, leave()
	default:
		return 0, fmt.Errorf("it said %s %s", first.word, first.text)
	}
}

// hold lets the holder enter. It is inside until leave is called.
func (m *meeting) hold(ctx context.Context) (leave func() error, err error) {
	if m.stranger {
		child := m.dir + "/" + string(m.holds.form)
		return func() error { return m.arena.witness.remove(child) }, m.arena.witness.make(child)
	}
	c, err := m.seat(ctx, m.holds, "holds")
	if err != nil {
		return nil, err
	}
	if _, err := c.next(ctx, newsEnter); err != nil {
		return nil, err
	}
	return func() error { return m.end(ctx, c) }, nil
}

// seat connects a contender and makes it ask for its lock.
func (m *meeting) seat(ctx context.Context, r role, does string) (*contender, error) {
	c, err := m.players[r.family].open(m.name+"-"+does, r.form, m.dir)
	if err != nil {
		return nil, err
	}
	if err := c.opened(ctx); err != nil {
		return nil, err
	}
	return c, c.order(orderTry, strconv.FormatInt(endless.Milliseconds(), 10))
}

// end makes a contender that is inside leave, and ends its session.
func (*meeting) end(ctx context.Context, c *contender) error {
	for _, step := range []struct{ order, news string }{
		{orderGo, newsLeave}, {orderOK, newsIdle}, {orderStop, newsStopped},
	} {
		if err := c.order(step.order); err != nil {
			return err
		}
		if _, err := c.next(ctx, step.news); err != nil {
			return err
		}
	}
	return nil
}

// watch returns the contender's first news, or that it has said nothing for that long while its node existed.
func (m *meeting) watch(ctx context.Context, c *contender, long time.Duration) (n news, heard bool, err error) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	var over <-chan time.Time
	for {
		select {
		case n := <-c.heard:
			return n, true, nil
		case <-over:
			return news{}, false, nil
		case <-ctx.Done():
			return news{}, false, context.Cause(ctx)
		case <-look.C:
		}
		if over != nil {
			continue
		}
		there, err := m.hasNode(c)
		if err != nil {
			return news{}, false, err
		}
		if there {
			over = time.After(long)
		}
	}
}

// hasNode tells whether the contender has a node at the lock.
func (m *meeting) hasNode(c *contender) (bool, error) {
	return m.arena.witness.owns(m.dir, c.session)
}
