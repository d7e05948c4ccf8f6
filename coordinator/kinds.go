package coordinator

import (
	"fmt"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/session"
)

// kind is what a path is used as. One path is one of them at a time.
type kind uint8

const (
	kindMutex kind = iota + 1
	kindReadWrite
	kindUnfair
	kindSemaphore
	kindElection
	kindKazooMutex
	kindKazooReadWrite
	kindKazooElection
)

// row is what a kind of lock differs in, beside its rule. What it does its own way stands in the file of its kind.
type row struct {
	name    string  // for an error, with its article
	word    string  // for hooks and the log
	kazoo   kind    // the same with kazoo's names; 0: kazoo has none
	can     ability // the options that it may have
	permits bool    // it takes permits
	leads   bool    // its holder leads

	check   func(*Lock, acquireConfig, int) error // what is wrong with a call, whose create takes so many bytes
	place   func(*Lock, *session.Place)           // what its seat has to know
	explain func(*Lock, actors.End) error         // an end that no other kind has
}

// ability is what some kinds of lock can, and others cannot.
type ability uint8

const (
	canDetect ability = 1 << iota // have DetectCrash
	canRevoke                     // have Revocable
	canJoin                       // be part of a multi-lock
)

// row returns what a kind differs in.
func (k kind) row() row {
	return [...]row{
		kindMutex:          {name: "a mutex", word: "mutex", kazoo: kindKazooMutex, can: canDetect | canRevoke | canJoin},
		kindReadWrite:      {name: "a read/write lock", word: "write", kazoo: kindKazooReadWrite, can: canDetect | canRevoke | canJoin},
		kindUnfair:         {name: "an unfair lock", word: "unfair"},
		kindSemaphore:      {name: "a semaphore", word: "semaphore", can: canRevoke, permits: true, check: (*Lock).checkPermits, place: (*Lock).placePermits, explain: (*Lock).explainSize},
		kindElection:       {name: "an election", word: "election", kazoo: kindKazooElection, can: canDetect | canRevoke, leads: true},
		kindKazooMutex:     {name: "a mutex as kazoo's", word: "mutex", kazoo: kindKazooMutex, can: canDetect | canRevoke | canJoin},
		kindKazooReadWrite: {name: "a read/write lock as kazoo's", word: "write", kazoo: kindKazooReadWrite, can: canDetect | canRevoke | canJoin},
		kindKazooElection:  {name: "an election as kazoo's", word: "election", kazoo: kindKazooElection, can: canDetect | canRevoke, leads: true},
	}[k]
}

// as returns what the kind is with kazoo's names, if the config asks for them and they exist.
func (k kind) as(cfg lockConfig) kind {
	if other := k.row().kazoo; cfg.kazoo && other != 0 {
		return other
	}
	return k
}

// checkOptions fails if the lock has an option that its kind cannot have, or if nobody would have any permission for its nodes.
func (l *Lock) checkOptions() error {
	row := l.kind.row()
	switch {
	case l.cfg.acl != nil && len(l.cfg.acl) == 0:
		return fmt.Errorf("%w: empty access control list for %s", ErrInvalid, l.path)
	case l.cfg.detect && row.can&canDetect == 0:
		return fmt.Errorf("%w: %s does not tell of crashes, at %s", errInvalidKind, row.name, l.path)
	case l.cfg.kazoo && row.kazoo == 0:
		return fmt.Errorf("%w: kazoo has no lock that %s could stand beside, at %s", errInvalidKind, row.name, l.path)
	default:
		return nil
	}
}

// isOfKind tells whether both may be used at one path.
func (l *Lock) isOfKind(o *Lock) bool { return l.kind == o.kind && l.cfg.detect == o.cfg.detect }

// usedAs names what isOfKind compares, for an error, with its article.
func (l *Lock) usedAs() string {
	if l.cfg.detect {
		return l.kind.row().name + " that tells of crashes"
	}
	return l.kind.row().name
}

// word names the kind of lock that is asked for.
func (l *Lock) word() string {
	switch {
	case l.multi() != nil:
		return "multi"
	case l.rule.Kind().Reads():
		return "read"
	default:
		return l.kind.row().word
	}
}
