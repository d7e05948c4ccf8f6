package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// Rewrite returns an operation that replaces the user's data in the node. It is for a
// transaction of the session that created the node. The path does not include the chroot.
func (s *Session) Rewrite(node string, data []byte) *zk.SetDataRequest {
	if name, is := events.ParseName(path.Base(node)); is {
		data = dataOf(name.Kind, data)
	}
	if events.HasMark(node, events.MarkRevocable) {
		data = withTimeout(data, s.Timeout())
	}
	return &zk.SetDataRequest{Path: node, Data: data, Version: anyVersion}
}

// Transact makes one transaction in the session of the epoch, guarded by the seat's own
// nodes at the given paths, and by all of its permits if one of them is given. Paths do
// not include the chroot. Transact waits for a connection and for the answer until ctx
// ends.
//
// The responses are those of the operations. Nothing was executed if the error is
// [ErrOperation], [ErrPath], [ErrTooLarge], [ErrEpochOver], [ErrGuard], [ErrSessionFull],
// a server's refusal (the responses show which operation), or the cause of ctx without
// [ErrOutcomeUnknown].
func (t *Seat) Transact(
	ctx context.Context, epoch recipes.Epoch, own []string, ops []any,
) ([]zk.MultiResponse, error) {
	s := t.session
	nodes := make([]string, len(own))
	for i, node := range own {
		nodes[i] = under(s.chroot, node)
	}
	if t.permits != nil {
		nodes = t.nodes(nodes[0]) // those of all its permits
	}
	all, err := s.assemble(nodes, ops)
	if err != nil {
		return nil, err
	}
	made := newTxn(all[len(nodes):])
	// The work under the lock is as urgent as the release that follows.
	at := callOptions{epoch: epoch, once: true, urgent: handing, seat: t, txn: made}
	responses, err := call(ctx, s, at, func(c *client) ([]zk.MultiResponse, error) {
		responses, err := c.transact(all, len(nodes))
		made.answered(responses, err)
		return responses, err
	})
	for i := range responses { // without the chroot, as the next transaction expects them
		responses[i].String = strings.TrimPrefix(responses[i].String, s.chroot)
	}
	return responses, err
}

// transact returns the responses of the operations after the guards.
func (c *client) transact(ops []any, guards int) ([]zk.MultiResponse, error) {
	responses, err := c.conn.Multi(ops...)
	for i := range responses {
		if refusal := responses[i].Error; refusal != nil {
			responses[i].Error = zkerr.InWords(refusal)
		}
	}
	if _, failed, refusal := zkerr.ClassifyMulti(responses, err); failed >= 0 {
		err = refusal
		if failed < guards && errors.Is(err, zk.ErrNoNode) {
			err = fmt.Errorf("%w: %w", ErrGuard, err)
		}
	}
	if len(responses) < guards {
		return nil, err
	}
	return responses[guards:], err
}

// assemble checks the operations, prefixes their paths with the chroot, and puts a guard
// for each of the nodes before them. It does not modify the caller's operations, and
// copies everything in them:
//
//  1. A transaction is in progress, in the client's queue.
//  2. Its ctx ends, and the caller continues and changes its data.
//  3. Only now does the client write the transaction to the wire.
func (s *Session) assemble(nodes []string, ops []any) ([]any, error) {
	const each = 64 // more than an operation takes in addition to its texts
	size, all := 0, make([]any, 0, len(nodes)+len(ops))
	for _, node := range nodes {
		size += each + len(node)
		all = append(all, &zk.CheckVersionRequest{Path: node, Version: anyVersion})
	}
	for i, op := range ops {
		moved, extent, err := rooted(s.chroot, op)
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		size += each + extent
		all = append(all, moved)
	}
	if size > MaxRequest {
		return nil, fmt.Errorf("%w: a transaction of %d bytes", ErrTooLarge, size)
	}
	return all, nil
}

// rooted returns a copy of the operation with the chroot before its path, and the length
// of its texts.
func rooted(chroot string, op any) (_ any, extent int, _ error) {
	// The caller may change its operations and their data while the request is in
	// progress, so copies of them are sent.
	var to *string
	switch o := op.(type) {
	case *zk.CreateRequest:
		if o != nil && o.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
			// A server may execute other flags and send an answer that the client cannot
			// read.
			return nil, 0, fmt.Errorf("%w: create with flags %#x", ErrOperation, o.Flags)
		}
		if o != nil {
			c := *o
			c.Data, c.Acl = slices.Clone(c.Data), slices.Clone(c.Acl)
			op, to, extent = &c, &c.Path, len(c.Data)+SizeOfACL(c.Acl)
		}
	case *zk.SetDataRequest:
		if o != nil {
			c := *o
			c.Data = slices.Clone(c.Data)
			op, to, extent = &c, &c.Path, len(c.Data)
		}
	case *zk.DeleteRequest:
		if o != nil {
			c := *o
			op, to = &c, &c.Path
		}
	case *zk.CheckVersionRequest:
		if o != nil {
			c := *o
			op, to = &c, &c.Path
		}
	}
	if to == nil {
		return nil, 0, fmt.Errorf("%w: %T", ErrOperation, op)
	}
	path, full := *to, under(chroot, *to)
	c, creates := op.(*zk.CreateRequest)
	if creates && c.Flags&zk.FlagSequence != 0 {
		path += "0000000001" // as the server checks it: the number is yet to come
		full = chroot + *to  // even if the name is only the number: "/" is below the chroot
	}
	if err := ValidatePath(path); err != nil {
		return nil, 0, err
	}
	if creates {
		if err := ValidateNew(chroot+path, false); err != nil {
			return nil, 0, err
		}
	}
	*to = full
	return op, extent + len(*to), nil
}

// txn is what a user's transaction does to the session's ephemeral nodes.
type txn struct {
	ops     []budget.Op
	indexes []int // of the numbered creates among the operations
	begun   *budget.Transaction
	outcome zkerr.Outcome // 0: it was not sent
	made    []string      // the paths of the numbered nodes
}

// newTxn returns nil for a transaction that neither creates an ephemeral node nor deletes
// a node.
func newTxn(operations []any) *txn {
	x := &txn{}
	for i, op := range operations {
		switch o := op.(type) {
		case *zk.CreateRequest:
			if o.Flags&zk.FlagEphemeral == 0 {
				continue
			}
			numbers := o.Flags&zk.FlagSequence != 0
			if numbers {
				x.indexes = append(x.indexes, i)
			}
			x.ops = append(x.ops, budget.Op{Path: o.Path, Creates: true, Numbers: numbers})
		case *zk.DeleteRequest:
			x.ops = append(x.ops, budget.Op{Path: o.Path, Deletes: true})
		}
	}
	if x.ops == nil {
		return nil
	}
	return x
}

// answered notes the outcome. It is called in the request's goroutine.
func (x *txn) answered(responses []zk.MultiResponse, err error) {
	if x == nil {
		return
	}
	x.outcome, _ = zkerr.Classify(err)
	for _, i := range x.indexes {
		if x.outcome == zkerr.Done && i < len(responses) {
			x.made = append(x.made, responses[i].String)
		}
	}
}

// end settles the transaction in the budget, once no more will be learned about it. It
// may run twice: if the caller gives up just as the request is about to be sent, both the
// request and drop call it.
func (x *txn) end(s *Session) {
	begun := x.begun
	x.begun = nil
	s.nodes.End(&s.budget, begun, x.outcome, x.made)
	s.roomMade()
}
