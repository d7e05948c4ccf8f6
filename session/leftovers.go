package session

import (
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file deletes directories that the session has created and no longer uses.
// [recipes.Leftovers] decides which ones, and when.
//
// Each delete is preceded by a read, in case another client has since created its own
// directory at the path. Kazoo needs its directories to stay.
//
// Limitation: the delete is conditional on the version that was read, but every new
// directory has version 0. So another client's directory is deleted if, between the two
// requests, the server removes ours and the other client creates its own, with no node in
// it yet.

// leftovers holds the directories, and the timer for the next one.
type leftovers struct {
	recipes.Leftovers

	timer *time.Timer // for cleanUp; nil while none is due
}

// mostBare limits the bare directories that are deleted at the end of a session.
const mostBare = 64

// madeContainer notes a container created for this session, unless it is the chroot or
// above it.
func (s *Session) madeContainer(dir string, czxid int64) {
	if strings.HasPrefix(dir, s.chroot+"/") {
		s.leftovers.Made(dir, czxid, time.Now())
		s.scheduleCleanup()
	}
}

// scheduleCleanup sets the timer for the next directory, unless it is set: a directory
// added later never becomes due earlier.
func (s *Session) scheduleCleanup() {
	if s.closing || s.leftovers.timer != nil {
		return
	}
	if wait, ok := s.leftovers.Wait(time.Now()); ok {
		s.leftovers.timer = time.AfterFunc(wait, func() { s.loop.Post(s.cleanUp) })
	}
}

// cleanUp requests the deletion of the directories that are due.
func (s *Session) cleanUp() {
	s.leftovers.timer = nil
	if s.closing {
		return
	}
	for {
		x, ok := s.leftovers.Next(time.Now())
		if !ok {
			break
		}
		s.pending.add(&cleanup{Leftover: x})
	}
	s.scheduleCleanup()
}

// cleanup is the request to delete one directory. It may be made in any epoch, because a
// directory outlives the session.
type cleanup struct {
	slot
	recipes.Leftover
}

var _ request = (*cleanup)(nil)

func (r *cleanup) admit(s *Session) { s.pending.add(r) }

func (r *cleanup) urgency() urgency { return cleaning }

func (r *cleanup) do(c *client) (func(*Session), error) {
	fate, err := c.removeLeftover(r.Leftover)
	return func(s *Session) {
		s.leftovers.Ended(r.Leftover, fate, time.Now())
		s.scheduleCleanup()
	}, err
}

// removeLeftover deletes the directory if it is still the one that was created, and
// empty.
func (c *client) removeLeftover(x recipes.Leftover) (recipes.Fate, error) {
	there, stat, err := c.conn.Exists(x.Dir)
	if err != nil {
		return c.fateOf(x, err)
	}
	if !there {
		return c.fateOf(x, zk.ErrNoNode)
	}
	fate, remove := x.Judge(recipes.LeftoverStat{
		Czxid: stat.Czxid, Children: stat.NumChildren, Changes: stat.Cversion, Version: stat.Version,
	})
	if !remove {
		return fate, nil
	}
	return c.fateOf(x, c.conn.Delete(x.Dir, stat.Version))
}

func (c *client) fateOf(x recipes.Leftover, err error) (recipes.Fate, error) {
	outcome, err := zkerr.Classify(err)
	switch {
	case outcome == zkerr.Done:
		c.dirs.forget(x.Dir)
		return recipes.FateRemoved, nil
	case zkerr.IsThrottled(err) && !x.Bare:
		return recipes.FateOther, err // the overloaded server will remove it by itself later
	case !outcome.Settled():
		return recipes.FateUnknown, err
	case errors.Is(err, zk.ErrNoNode):
		c.dirs.forget(x.Dir)
		return recipes.FateGone, nil
	case errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrBadVersion):
		return recipes.FateUsed, nil
	default:
		c.logger.Debug("empty directory not deleted; the servers may delete it",
			zap.String("directory", x.Dir), zap.Error(err))
		return recipes.FateOther, err
	}
}

// removeBare deletes directories that servers would keep forever. It is called at the end
// of the session, which waits for these requests as for all others in progress.
func (s *Session) removeBare(c *client) {
	if s.leftovers.timer != nil {
		s.leftovers.timer.Stop()
	}
	if c.phase.Load() != phaseUp {
		return
	}
	for _, x := range s.leftovers.Bare(mostBare) {
		c.inflight++
		s.group.Go(func() {
			_, _ = c.removeLeftover(x)
			s.loop.Hand(func() { s.finish(c) })
		})
	}
}
