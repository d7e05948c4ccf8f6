package coordinator

import (
	"fmt"

	"github.com/zkgrant/zkgrant/session"
)

// DetectCrash has the Grant of a lock say whether somebody who held it before has ended otherwise than by a release, and
// nobody has released since: [events.Grant].Abandoned tells who it was, what [WithData] said of him, and since when he held
// the lock. What he did under the lock may be half done, so whoever gets that repairs it first. From then on every Grant
// tells the same, until a holder has released: Abandoned is that of the first who crashed.
//
// A release is [Acquisition.Release] of a lock that is held, the return of a function in [Lock.Do], whatever it returns, and the end
// of a body of [Election.Terms]. No release is the end of the process or of the session; a loss; a panic or runtime.Goexit in the
// function or the body; and [Coordinator.Close] while the lock is held, the function that it cancels included: release first.
// Whoever releases before he is told of a loss has released, if his node is still there then. A Grant that nobody has taken is as
// good as none if it is given up, and also if it is lost, unless its node is gone by then. An inner holder of a [Reentrant] lock
// that crashes has crashed for all of them.
//
// It may tell of a crash too much, and never of one too few. Where a session ends between the transaction that makes a
// holder and the moment in which that one hears of it, he has done nothing, and yet the next one is told of him. So it is
// where he releases while there is no connection, though he still holds the lock, and the session ends before there is one
// again: then nobody has heard of the release, and Err does not tell that.
//
// The record is a node beside the lock, at its path with `.holder` behind it: text that says who holds. It is made in the
// transaction that claims the lock, and removed in the one that removes the node of one who releases. As long as nobody has
// released it stays, and so do the nodes above it. It has the access control list of the lock, so holders need to
// read each other's records, and to create and delete in the node above the lock's, or the lock is refused ([ErrNoAuth]). If
// only the removing is, the lock is released, and Err says that its record is still there. A node there that is no record ends in
// [ErrRecord], and is left alone. A lock at / has no room for one, which is [ErrPath].
//
// All programs that hold the lock have to use the option: those that do not leave no record when they crash, and
// leave somebody else's when they release. In one coordinator that is [ErrKind]. So is the option for a
// semaphore and an unfair lock, and in a multi-lock. No lock may be at the path of a record.
//
// Readers of a [ReadWrite] lock make no record, and remove none, but are told. A reader in the place of its own writer is not
// told of that one; and as ever it must have been granted before the writer releases.
//
// A lock that is free costs one round trip more, also where it is released and taken again at once; a handoff to
// one who waits costs one more only in a long queue, and reading the record of somebody who crashed one more.
func DetectCrash() LockOption { return lockOption(func(c *lockConfig) { c.detect = true }) }

// checkDetect finds what keeps the lock from having a record.
func (l *Lock) checkDetect(cfg acquireConfig, size int) error {
	if !l.cfg.detect {
		return nil
	}
	if l.path == "/" {
		return fmt.Errorf("%w: / has no room beside it for the record of a holder", ErrPath)
	}
	// The record names the holder's node, and its own path goes with that.
	return l.checkSize(cfg, size+2*(len(l.c.chroot)+len(l.path)+len(session.RecordSuffix)))
}

// isOfKind tells whether both may be used at one path.
func (l *Lock) isOfKind(o *Lock) bool { return l.family == o.family && l.cfg.detect == o.cfg.detect }

// kind names what isOfKind compares, for an error, with its article.
func (l *Lock) kind() string {
	if l.cfg.detect {
		return l.family.String() + " that tells of crashes"
	}
	return l.family.String()
}
