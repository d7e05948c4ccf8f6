package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a holder that is asked to give the lock back.

// origin is the zero of moments.
//
//nolint:gochecknoglobals // never written
var origin = time.Now()

// MomentOf converts a time to the form that machines use. It is never 0.
func MomentOf(t time.Time) recipes.Moment {
	if m := recipes.Moment(t.Sub(origin)); m != 0 {
		return m
	}
	return 1
}

// TimeOf is the inverse of MomentOf.
func TimeOf(m recipes.Moment) time.Time {
	now := time.Now()
	return now.Add(time.Duration(m - MomentOf(now)))
}

// isDue reports whether a wish has a deadline, and that has come. There may be no wish.
func isDue(wish *recipes.Revoke, now time.Time) bool {
	return wish != nil && wish.By != 0 && !now.Before(TimeOf(wish.By))
}

// onRevoke publishes a revocation request and its deadline. A later request replaces the
// earlier one, because its deadline is earlier.
func (l *Lock) onRevoke(e recipes.Revoke) (told bool) {
	revoked, told := l.revoke(e)
	if told && l.logs() {
		l.log(revoked)
	}
	return told
}

func (l *Lock) revoke(e recipes.Revoke) (revoked events.Revoked, told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn != 0 {
		return revoked, false
	}
	revoked = events.Revoked{ID: l.cfg.ID, Path: l.cfg.Path}
	if e.By != 0 {
		revoked.Deadline = TimeOf(e.By)
		l.rarely().due = revoked.Deadline
	}
	l.publish(revoked)
	if l.feed() != nil {
		return revoked, true
	}
	wishes := l.wishes()
	select {
	case <-wishes: // the unread one is outdated
	default:
	}
	wishes <- revoked // size 1, and mu is held
	return revoked, true
}

// Revoked delivers the latest revocation request.
func (l *Lock) Revoked() <-chan events.Revoked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wishes()
}

// wishes makes the channel if there is none yet. It is called with mu held.
func (l *Lock) wishes() chan events.Revoked {
	rare := l.rarely()
	if rare.revoked == nil {
		rare.revoked = make(chan events.Revoked, 1)
	}
	return rare.revoked
}
