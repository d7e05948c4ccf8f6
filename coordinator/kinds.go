package coordinator

import (
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/session"
)

// kind describes what a path is used as, and how that differs from other kinds, apart
// from the rule. A path is used as one kind at a time.
type kind struct {
	name    string  // for an error, with its article
	word    string  // for hooks and the log
	kazoo   *kind   // the same kind with kazoo's names; nil: kazoo does not have it
	can     ability // the options that it supports
	permits bool    // it takes permits
	leads   bool    // its holder leads

	// check, if not nil, checks a call whose create takes this many bytes. The method is
	// in the kind's own file.
	check func(*Lock, acquireConfig, int) error
}

// ability is something that only some kinds of lock support.
type ability uint8

const (
	canDetect  ability = 1 << iota // has DetectCrash
	canRevoke                      // has Revocable
	canReenter                     // has Reentrant
	canJoin                        // may be part of a multi-lock
	isKazoo                        // its names are those of AsKazoo
)

// The kinds. They are constant.
//
//nolint:gochecknoglobals // they are constant
var (
	kindMutex = &kind{name: "a mutex", word: "mutex", kazoo: kazooMutex,
		can: canDetect | canRevoke | canReenter | canJoin}
	kindReadWrite = &kind{name: "a read/write lock", word: "write", kazoo: kazooReadWrite,
		can: canDetect | canRevoke | canReenter | canJoin}
	kindElection = &kind{name: "an election", word: "election", kazoo: kazooElection,
		can: canDetect | canRevoke | canReenter, leads: true}
	kindUnfair    = &kind{name: "an unfair lock", word: "unfair"}
	kindSemaphore = &kind{name: "a semaphore", word: "semaphore",
		can: canRevoke, permits: true, check: (*Lock).checkPermits}

	kazooMutex = &kind{name: "a mutex with kazoo's names", word: "mutex",
		can: canDetect | canRevoke | canReenter | canJoin | isKazoo}
	kazooReadWrite = &kind{name: "a read/write lock with kazoo's names", word: "write",
		can: canDetect | canRevoke | canReenter | canJoin | isKazoo}
	kazooElection = &kind{name: "an election with kazoo's names", word: "election",
		can: canDetect | canRevoke | canReenter | isKazoo, leads: true}
)

// as returns the kind with kazoo's names, if the config requests them and kazoo has the
// kind.
func (k *kind) as(cfg lockConfig) *kind {
	if cfg.kazoo && k.kazoo != nil {
		return k.kazoo
	}
	return k
}

// checkOptions fails if the lock has an option that its kind cannot have, or an empty
// ACL.
func (l *Lock) checkOptions() error {
	switch {
	case l.cfg.acl != nil && len(l.cfg.acl) == 0:
		return fmt.Errorf("%w: empty access control list for %s", ErrInvalid, l.path)
	case l.cfg.detect && l.kind.can&canDetect == 0:
		return fmt.Errorf("%w: %s cannot report crashes: %s", errInvalidKind, l.kind.name, l.path)
	case l.cfg.delay != 0 && (l.cfg.delay < time.Millisecond || l.cfg.delay > session.MaxLockDelay):
		return fmt.Errorf("%w: a lock-delay of %v is neither 0 nor between 1ms and %v: %s",
			ErrInvalid, l.cfg.delay, session.MaxLockDelay, l.path)
	case l.cfg.revocable && l.kind.can&canRevoke == 0:
		return fmt.Errorf("%w: %s cannot be revoked: %s", errInvalidKind, l.kind.name, l.path)
	case l.cfg.kazoo && l.kind.can&isKazoo == 0:
		return fmt.Errorf("%w: kazoo has no counterpart of %s: %s", errInvalidKind, l.kind.name, l.path)
	case l.cfg.reentrant && l.kind.can&canReenter == 0:
		return fmt.Errorf("%w: %s cannot be reentrant: %s", errInvalidKind, l.kind.name, l.path)
	case l.cfg.adopt && !l.kind.permits:
		return fmt.Errorf("%w: %s has no size to adopt: %s", errInvalidKind, l.kind.name, l.path)
	default:
		return l.checkCached()
	}
}

// isOfKind reports whether both locks may be used at one path.
func (l *Lock) isOfKind(o *Lock) bool { return l.kind == o.kind && l.cfg.detect == o.cfg.detect }

// usedAs describes what isOfKind compares, for an error, with its article.
func (l *Lock) usedAs() string {
	if l.cfg.detect {
		return l.kind.name + " with crash reports"
	}
	return l.kind.name
}

// word names the kind of lock for hooks and logs.
func (l *Lock) word() string {
	switch {
	case l.members != nil:
		return "multi"
	case l.rule.Kind().Reads():
		return "read"
	default:
		return l.kind.word
	}
}
