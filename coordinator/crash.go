package coordinator

import (
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/session"
)

// DetectCrash makes the Grant report an earlier holder that has crashed: [events.Grant.Abandoned]. Repair what it left half done. Every
// Grant reports the first such holder until a holder has released.
//
// A crash is the end of the process or session, a loss, a panic, and [Coordinator.Close] while the lock is held. Every program that holds
// the lock must use the option. Semaphores, unfair locks and multi-locks are [ErrKind].
func DetectCrash() LockOption { return lockOption(func(c *lockConfig) { c.detect = true }) }

// LockDelay is [DetectCrash], and holds the next Grant back for d, at most a minute, from when a contender finds the crash. Contenders with
// DetectCrash wait as well. [events.Queued] tells how long; [Try] ends in [ErrNotAcquired].
func LockDelay(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.detect, c.delay = true, d })
}

// checkDetect reports why the lock cannot have a record.
func (l *Lock) checkDetect(cfg acquireConfig, size int) error {
	if !l.cfg.detect {
		return nil
	}
	if l.path == "/" {
		return fmt.Errorf("%w: a lock at / cannot tell of crashes, because its record would stand beside /", ErrPath)
	}
	// The record holds the names of one or two nodes of the holder, and its own path is sent as well. A contender with a delay marks it.
	return l.checkSize(cfg, size+3*(len(l.c.chroot)+len(l.path)+len(session.RecordSuffix))+session.MarkRoom)
}
