package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

var (
	// ErrOutcomeUnknown says that nobody can tell whether a transaction was executed:
	// the connection was lost, or nobody waited any more, while it was under way.
	ErrOutcomeUnknown = errors.New("zkgrant: outcome unknown")
	// ErrOperation says that an operation is none that a transaction can have.
	ErrOperation = Sentinel("zkgrant: no such operation", ErrInvalid)
	// ErrEpochOver says that the session in which a transaction was to be made is over.
	// It was not made.
	ErrEpochOver = errors.New("zkgrant: session is over")
	// ErrGuard says that a transaction was not executed because its guard's node does not exist.
	ErrGuard = errors.New("zkgrant: guarding node is gone")
)

// MaxRequest is how many bytes a server accepts in one request by default (jute.maxbuffer).
const MaxRequest = 0xfffff

// Guard returns an operation that succeeds while the node exists. The node's path is without the chroot, the
// operation's with it.
func (s *Session) Guard(node string) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: join(s.chroot, node), Version: anyVersion}
}

// Rewrite returns an operation, for a transaction of the session that made the node, that replaces what the user has stored there. The
// node's path is without the chroot.
func (s *Session) Rewrite(node string, data []byte) *zk.SetDataRequest {
	if revocable(node) {
		data = withTimeout(data, s.Timeout())
	}
	return &zk.SetDataRequest{Path: node, Data: data, Version: anyVersion}
}

// Transact makes one transaction of the guard and the operations behind it, in the session of the epoch. Paths of the
// operations are without the chroot. It waits for a connection, if there is none, and for the answer, until ctx ends.
//
// The responses are those of the operations. Nothing was executed if the error is ErrOperation, [ErrPath],
// [ErrTooLarge], ErrEpochOver, ErrGuard, a server's refusal (the responses say of which operation), or the cause of
// ctx without ErrOutcomeUnknown.
func (s *Session) Transact(ctx context.Context, epoch recipes.Epoch, guard *zk.CheckVersionRequest, ops []any) ([]zk.MultiResponse, error) {
	return s.transact(ctx, epoch, nil, []any{guard}, ops)
}

// Transact is [Session.Transact] with the seat's own nodes, at the paths given, as the guards.
func (t *Seat) Transact(ctx context.Context, epoch recipes.Epoch, own []string, ops []any) ([]zk.MultiResponse, error) {
	guards := make([]any, 0, len(own))
	for _, node := range own {
		guards = append(guards, t.session.Guard(node))
	}
	return t.session.transact(ctx, epoch, t, guards, ops)
}

func (s *Session) transact(
	ctx context.Context, epoch recipes.Epoch, seat *Seat, guards, ops []any,
) ([]zk.MultiResponse, error) {
	all, err := s.assemble(guards, ops)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := &transaction{epoch: epoch, ops: all, guards: len(guards), seat: seat, outcome: make(chan transacted, 1)}
	if !s.actor.Post(t) { // nothing is left of the session
		return nil, ErrEpochOver
	}
	select {
	case out := <-t.outcome:
		return s.unrooted(out.responses), out.err
	case <-ctx.Done():
	}
	was := t.stage.Swap(stageLeft)
	select {
	case out := <-t.outcome: // it came together with the end of ctx
		return s.unrooted(out.responses), out.err
	default:
	}
	if was == stageUnderWay {
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	}
	s.actor.Post(dropped{t})
	return nil, context.Cause(ctx)
}

// unrooted takes the chroot off the paths that were made, so that they are what the next transaction takes.
func (s *Session) unrooted(responses []zk.MultiResponse) []zk.MultiResponse {
	for i := range responses {
		responses[i].String = strings.TrimPrefix(responses[i].String, s.chroot)
	}
	return responses
}

// assemble checks the operations, and puts them behind the guards and the chroot before their paths. What the caller
// gave is not changed, and copied to the last byte: 1. a transaction is under way, in the client's queue; 2. its ctx
// ends, and the caller goes on, with his data in his hands; 3. only now the client writes it to the wire.
func (s *Session) assemble(guards, ops []any) ([]any, error) {
	const each = 64 // more than what an operation needs beside its texts
	size := 0
	for _, guard := range guards {
		if g, ok := guard.(*zk.CheckVersionRequest); ok {
			size += each + len(g.Path)
		}
	}
	all := slices.Clone(guards)
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

// rooted returns the operation with the chroot before its path, and the length of its texts.
func rooted(chroot string, op any) (_ any, extent int, _ error) {
	var to *string
	switch o := op.(type) {
	case *zk.CreateRequest:
		if o == nil {
			break
		}
		c := *o
		for _, acl := range c.Acl {
			extent += len(acl.Scheme) + len(acl.ID) + aclOverhead
		}
		if c.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
			// A server may execute the others, and answer what the client cannot read.
			return nil, 0, fmt.Errorf("%w: create with flags %#x", ErrOperation, c.Flags)
		}
		c.Data, c.Acl = slices.Clone(c.Data), slices.Clone(c.Acl)
		op, to, extent = &c, &c.Path, extent+len(c.Data)
	case *zk.SetDataRequest:
		if o == nil {
			break
		}
		c := *o
		c.Data = slices.Clone(c.Data)
		op, to, extent = &c, &c.Path, len(c.Data)
	case *zk.DeleteRequest:
		if o == nil {
			break
		}
		c := *o
		op, to = &c, &c.Path
	case *zk.CheckVersionRequest:
		if o == nil {
			break
		}
		c := *o
		op, to = &c, &c.Path
	}
	if to == nil {
		return nil, 0, fmt.Errorf("%w: %T", ErrOperation, op)
	}
	path, full := *to, join(chroot, *to)
	if c, ok := op.(*zk.CreateRequest); ok && c.Flags&zk.FlagSequence != 0 {
		path += "1"         // as the server checks it: the number is yet to come
		full = chroot + *to // also if the number is all there is of a name: "/" is below the chroot, and not the chroot
	}
	if err := ValidatePath(path); err != nil {
		return nil, 0, err
	}
	*to = full
	return op, extent + len(*to), nil
}

// aclOverhead is what an entry of an access control list takes beside its texts: the permissions and two lengths.
const aclOverhead = 12

// How far a transaction has come. The client's goroutine and whoever waits change it, and the first decides: what was
// left while parked is not made, and what is under way by then is not made again.
const (
	stageParked int32 = iota
	stageUnderWay
	stageLeft
)

// transaction is a request of somebody who waits for it.
type transaction struct {
	slot

	epoch   recipes.Epoch
	ops     []any // the guards first
	guards  int   // how many of them are guards
	seat    *Seat // whose nodes the guards are, or nil
	rests   bool  // see mayPark
	stage   atomic.Int32
	outcome chan transacted // size 1
}

// transacted is the outcome of a transaction.
type transacted struct {
	responses []zk.MultiResponse
	err       error
}

var _ request = (*transaction)(nil)

func (t *transaction) meantFor() recipes.Epoch { return t.epoch }

// urgency: it is what the lock is held for, and who gives the lock back comes behind it.
func (t *transaction) urgency() urgency { return handing }

func (t *transaction) refuse() { t.outcome <- transacted{err: ErrEpochOver} }

func (t *transaction) do(c *client) (func(*Session), error) {
	if !t.stage.CompareAndSwap(stageParked, stageUnderWay) {
		return func(s *Session) { s.unrest(t) }, nil
	}
	responses, err := c.conn.Multi(t.ops...)
	outcome, err := ClassifyMulti(responses, err)
	return func(s *Session) {
		switch {
		case unsettled(err) && !errors.Is(err, zk.ErrSessionExpired):
			// Not executed, and that says nothing about the transaction.
			if t.stage.CompareAndSwap(stageUnderWay, stageParked) {
				s.again(c, t)
				return
			}
		case outcome == Unknown:
			t.outcome <- transacted{err: fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)}
		case errors.Is(err, zk.ErrSessionExpired):
			t.outcome <- transacted{err: fmt.Errorf("%w: %w", ErrEpochOver, err)}
		case len(responses) < t.guards:
			t.outcome <- transacted{err: err}
		default:
			failed := FailedOp(responses)
			if outcome == Refused && 0 <= failed && failed < t.guards && errors.Is(err, zk.ErrNoNode) {
				err = fmt.Errorf("%w: %w", ErrGuard, err)
			}
			t.outcome <- transacted{responses[t.guards:], err}
		}
		s.unrest(t)
	}, err
}
