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

// This file is for state that is kept in ZooKeeper. A write in the same transaction as a
// check of the lock's node is made by the holder or not at all; clocks do not matter.

// Txn executes the operations in one transaction, if every node of the lock still exists.
// Operations are [*zk.CreateRequest] (with an ACL), [*zk.SetDataRequest],
// [*zk.DeleteRequest] and [*zk.CheckVersionRequest], with paths below the chroot. Txn
// waits for a connection until ctx ends. It returns the responses in order, even if an
// operation was refused.
//
// After [ErrOutcomeUnknown] the transaction may have been executed; after any other error
// it was not. Without the lock, the error is [ErrNotAcquired], [ErrReleased], or what
// Err returns.
func (a *Acquisition) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	seat, grant, epoch, done, err := a.use()
	if err != nil {
		return nil, err
	}
	responses, err := seat.Transact(ctx, epoch, nodesOf(grant), ops)
	done(errors.Is(err, ErrOutcomeUnknown))
	switch over := errors.Is(err, session.ErrGuard) || errors.Is(err, session.ErrEpochOver); {
	case over && !a.actor.Holding(): // released meanwhile and deleted already, or the loss is known
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

// use returns the seat of the held node, which is not handed on before done is called.
func (a *Acquisition) use() (seat *session.Seat, grant events.Grant, epoch recipes.Epoch,
	done func(spent bool), _ error) {
	// Read all of it in one call of Tenure. Between two calls, the Grant could arrive:
	// the transaction would be made because the lock is held, but without a guard, and
	// for any epoch.
	grant, epoch, held := a.actor.Tenure()
	if !held {
		return nil, grant, 0, nil, a.notHeld(grant)
	}
	port, done := a.actor.Use()
	seat, ok := port.(*session.Seat)
	if !ok {
		return nil, grant, 0, nil, a.notHeld(grant)
	}
	return seat, grant, epoch, done, nil
}

// SetData replaces the data of the lock's nodes, which Queue and Observe show; with
// several permits, that of the first node. A [Cached] lock's node is deleted at the
// Release. The errors are those of Txn, and [ErrData].
func (a *Acquisition) SetData(ctx context.Context, data []byte) error {
	if session.Reserved(data) {
		return errReserved(data, a.lock.path)
	}
	var ops []any
	for _, node := range nodesOf(a.Grant()) {
		ops = append(ops, a.lock.c.session.Rewrite(node, data))
	}
	// A cached node is handed on only with the data that it was created with.
	_, done := a.actor.Use()
	_, err := a.Txn(ctx, ops...) // without a Grant, it returns why
	done(err == nil)
	return err
}

// notHeld returns why the lock is not held, for a caller that knows that it is not.
func (a *Acquisition) notHeld(grant events.Grant) error {
	if err := a.actor.Ending(); err != nil {
		return err
	}
	if grant.Node == "" {
		return ErrNotAcquired
	}
	return ErrReleased
}
