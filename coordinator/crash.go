package coordinator

import "time"

// DetectCrash makes the Grant report an earlier holder that crashed:
// [events.Grant.Abandoned]. Every Grant reports the first such holder until a holder has
// released.
//
// A crash is the end of the process or session, a loss, a panic, or Close while the lock
// is held. Every holder must use the option. Semaphores, unfair locks and multi-locks are
// [ErrKind].
func DetectCrash() LockOption { return lockOption(func(c *lockConfig) { c.detect = true }) }

// LockDelay is [DetectCrash], and delays the next Grant by d, at most a minute, from when
// a contender finds the crash. Contenders with DetectCrash wait as well. Try ends with
// [ErrNotAcquired].
func LockDelay(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.detect, c.delay = true, d })
}
