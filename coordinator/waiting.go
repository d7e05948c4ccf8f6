package coordinator

import (
	"context"
	"fmt"
	"maps"
	"path"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session"
)

// This file logs acquisitions that wait for a long time. A check every half session
// timeout finds them. It stops while there are no acquisitions.

// waitLines has the time at which the next line about a path is due. Coordinators with
// the same logger and connect string share it, so that a path with waiters in several of
// them gets one line.
//
//nolint:gochecknoglobals // a process has one log
var waitLines = struct {
	sync.Mutex
	due map[waitPath]time.Time
}{due: map[waitPath]time.Time{}}

// waitPath is a path in an ensemble, for one log.
type waitPath struct {
	log           *zap.Logger
	servers, path string
}

// due reports whether a line about the path is due. The next one is due after a minute,
// or when the wait has lasted twice as long, whichever is later.
func (p waitPath) due(waited time.Duration) bool {
	waitLines.Lock()
	defer waitLines.Unlock()
	now := time.Now()
	maps.DeleteFunc(waitLines.due, func(_ waitPath, next time.Time) bool { return now.Sub(next) > time.Hour })
	if now.Before(waitLines.due[p]) {
		return false
	}
	waitLines.due[p] = now.Add(max(time.Minute, waited))
	return true
}

// watchWaits schedules a check for long waits after half a session timeout.
func (c *Coordinator) watchWaits() {
	time.AfterFunc(c.cfg.Timeout/2, func() { c.group.Go(c.logWaits) })
}

// logWaits logs a line for each path at which acquisitions have waited for a session
// timeout. The line is about the first of them in the queue.
func (c *Coordinator) logWaits() {
	all, again := c.live.waiters(c.cfg.Timeout)
	if !c.cfg.Logger.Core().Enabled(zap.InfoLevel) { // for now: the level may change
		all = nil
	}
	// One line per path, not per waiter: a thousand waiters would flood the log.
	first, count := map[string]*Acquisition{}, map[string]int{}
	for _, a := range all {
		at := a.lock.path
		count[at]++
		ahead, ok := a.Position()
		if best := first[at]; best == nil {
			first[at] = a
		} else if than, known := best.Position(); ok && (!known || ahead < than) {
			first[at] = a
		}
	}
	for at, a := range first {
		waited, waits := a.actor.Waiting()
		line := c.waits
		line.path = at
		if waits && c.session.Calm() && line.due(waited) {
			c.logWait(a, waited, count[at])
		}
	}
	if again {
		c.watchWaits()
	}
}

// logWait reads the contender directly ahead, and logs it.
func (c *Coordinator) logWait(a *Acquisition, waited time.Duration, waiters int) {
	what := "still waiting for the lock"
	if a.lock.kind.leads {
		what = "still waiting for leadership"
	}
	fields := []zap.Field{
		zap.String("path", a.lock.path), zap.Uint64("id", a.id),
		zap.Duration("waited", waited.Round(time.Millisecond)),
		zap.Int("waiters", waiters),
	}
	if ahead, ok := a.Position(); ok {
		fields = append(fields, zap.Int("ahead", ahead))
	}
	// A reader of the line needs to know who is ahead. That costs one read, at most once
	// a minute per path.
	node := ""
	if a.seat != nil {
		node = a.seat.Ahead() // once, because it may change meanwhile
	}
	if node != "" {
		found, err := c.look(c.open, a.lock.path, func(ctx context.Context) ([]session.Found, error) {
			return c.session.Look(ctx, node)
		})
		switch {
		case err != nil:
			fields = append(fields, zap.Error(err))
		case len(found) > 0:
			by := contender(path.Dir(node), found[0])
			fields = append(fields, zap.String("node", by.Node),
				zap.String("session", fmt.Sprintf("0x%x", uint64(by.Session))),
				zap.Time("since", by.Since),
				zap.ByteString("data", by.Data[:min(len(by.Data), mostLoggedData)]))
		}
	}
	c.cfg.Logger.Info(what, fields...)
}

// mostLoggedData is how many bytes of another contender's data are logged.
const mostLoggedData = 128
