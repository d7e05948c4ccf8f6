package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// This file is for state that is kept in ZooKeeper: what is written in one
// transaction with a check of the lock's node is written by the holder, or not at
// all. No clock has a say in it.

// nobody is the name of a node that is not made.
const nobody = "_not_held_"

// Guard returns a check that succeeds only while the lock's node exists, to be put
// first into a Multi of a connection of your own. While it exists nobody can hold
// the lock whom this one keeps out, whatever Valid says and however late the transaction
// arrives: nobody else, or no writer if it is a reader's. Its
// path is the one on the server, the chroot included. Before the Grant it names a
// node that does not exist. So it does for an unfair lock, whose nodes bear one name, and which it could not tell
// from the next holder's: there it never succeeds. Of a lock that several hold together, as readers do and the holders
// of permits, it says that we hold it; of several permits it checks the first, and of a multi-lock the
// node of the first lock.
//
// Most programs want [Acquisition.Txn], which needs no second connection.
func (a *Acquisition) Guard() *zk.CheckVersionRequest {
	grant, _, _ := a.actor.Tenure()
	node := grant.Node
	if node == "" || recipes.Single(a.lock.rule) {
		node = a.lock.path + "/" + nobody
		if a.lock.path == "/" {
			node = "/" + nobody
		}
	}
	return a.lock.c.session.Guard(node)
}

// Txn executes the operations in one transaction, all or none, and only if the
// lock's node, or every node of a multi-lock, still exists when the servers come to it. They may be
// *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest, with paths like those of locks: relative to the chroot.
// The guard is added, and must not be given. A create needs an access control list, and may be ephemeral and
// sequential, and nothing else. The operations and their data are the caller's again when Txn has returned. The responses are those of the
// operations, in their order, also when one of them was refused; the error is then
// that one's.
//
// While there is no connection Txn waits for one, until ctx ends. Nothing was
// executed if the error is one of
//
//   - [ErrNotAcquired]: there is no Grant yet, not even one that nobody has taken
//   - [ErrReleased], a [*LostError], [ErrClosed], or whatever else Err will return: not held any more; a [*LostError]
//     for [ErrNodeRemoved] is zk.ErrNoNode as well if it was the guard that failed
//   - [ErrOperation], [ErrPath], [ErrTooLarge]: bad input, which nothing was sent of
//   - an error of package zk, [ErrNoAuth], [ErrQuota]: a server refused an operation
//   - the cause of ctx, unless it is [ErrOutcomeUnknown] as well
//
// With [ErrOutcomeUnknown] it may have been executed, or be executed yet: the
// connection or ctx ended while it was under way.
func (a *Acquisition) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	// One look at all of it. With two the Grant could come in between: a transaction with the guard of no Grant, for any
	// epoch, would be made because the lock is held by then.
	grant, epoch, held := a.actor.Tenure()
	if !held {
		return nil, a.notHeld(grant)
	}
	responses, err := a.seat.Transact(ctx, epoch, nodesOf(grant), ops)
	switch over := errors.Is(err, session.ErrGuard) || errors.Is(err, session.ErrEpochOver); {
	case over && !a.actor.Holding(): // released meanwhile, and the delete was quicker; or the loss is known
		return nil, a.notHeld(grant)
	case errors.Is(err, session.ErrGuard):
		lost := &LostError{Path: a.lock.path, Reason: events.ReasonNodeRemoved}
		return responses, fmt.Errorf("%w (%w)", lost, err)
	case over:
		return nil, &LostError{Path: a.lock.path, Reason: events.ReasonSessionExpired}
	default:
		return responses, err
	}
}

// notHeld says why the lock is not held, which is known to be so.
func (a *Acquisition) notHeld(grant events.Grant) error {
	if err := a.actor.Ending(); err != nil {
		return err
	}
	if grant.Node == "" {
		return ErrNotAcquired
	}
	return ErrReleased
}
