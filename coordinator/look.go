package coordinator

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// This file is for those who look at a lock and do not ask for it.

// Queue returns who holds the lock and who waits for it, in the order of the queue.
// Anybody may ask, at any time: it takes no place in the queue, writes nothing and
// leaves no watch. A lock that nobody has asked for yet has an empty queue.
//
// It is a snapshot, of what one server knew: the directory is listed first, and then
// each contender read, so whoever has come since the listing is not in it, and whoever
// has gone before it was read is not in it either. Holding is said by the rule of the
// queue, about those that are in it: nobody in it stands in the contender's way. That
// is not a proof, as a Grant is one: a contender whose turn has come may not have
// heard of it yet, and one whose session is about to expire still has its node. So it
// is for people and dashboards to look at, and not for a program to act on.
//
// Contenders of other libraries are in it like our own, whatever else is in the
// directory is not. Their nodes are named like the lock: without the chroot.
//
// Of a multi-lock it is one queue after the other, each by the rule of its own lock.
//
// An unfair lock has no queue: what there is to see is who has it, if anybody does, and that costs
// one reading. [ErrKind] says that something else stands at its path.
//
// It costs a listing and one reading for each contender, at most 64 of which a
// coordinator has under way at a time, so that its locks do not have to wait. While
// there is no connection Queue waits for one, until ctx ends. The error is that of a bad path,
// the same as of Acquire, the cause of ctx, [ErrClosed], or [ErrNoAuth] if the
// directory or one of the contenders may not be read.
func (l *Lock) Queue(ctx context.Context) ([]events.Contender, error) {
	if m := l.multi(); m != nil {
		return m.queue(ctx)
	}
	if recipes.Single(l.rule) {
		return l.holder(ctx)
	}
	found, err := l.c.survey(ctx, l.path, isContender)
	if err != nil {
		return nil, err
	}
	return queueOf(l.path, l.rule, found), nil
}

// queueOf returns the contenders that were found in a directory, in their order.
func queueOf(dir string, rule recipes.Rule, found []session.Found) []events.Contender {
	names := make([]events.Name, len(found))
	nodes := make(map[string]session.Found, len(found))
	for i, f := range found {
		names[i], _ = events.ParseName(f.Name)
		nodes[f.Name] = f
	}
	slices.SortFunc(names, events.CompareNames)
	queue := make([]events.Contender, len(names))
	for i, name := range names {
		queue[i] = contender(dir, nodes[name.Text])
		queue[i].Kind, queue[i].Holding = name.Kind, recipes.Holds(rule, names, name)
	}
	return queue
}

// isContender tells whether a node in a lock's directory is one by its name.
func isContender(name string) bool {
	_, ok := events.ParseName(name)
	return ok
}

// holder returns whoever has an unfair lock.
func (l *Lock) holder(ctx context.Context) ([]events.Contender, error) {
	found, err := l.c.look(ctx, l.path, func(ctx context.Context) ([]session.Found, error) {
		return l.c.session.Look(ctx, l.path)
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if !session.Ephemeral(found[0].Stat) {
		return nil, fmt.Errorf("%w: there is a node %s that is no lock", ErrKind, l.path)
	}
	holder := contender(path.Dir(l.path), found[0])
	holder.Kind, holder.Holding = events.KindUnfair, true
	return []events.Contender{holder}, nil
}

// Queue returns who holds either side of the lock and who waits for it, in the order of
// the queue; each side's own [Lock.Queue] says the same.
func (rw *ReadWrite) Queue(ctx context.Context) ([]events.Contender, error) {
	return rw.write.Queue(ctx)
}

// contender is what a node says of whoever made it; what it wants and has, its name
// and its neighbours say.
func contender(dir string, f session.Found) events.Contender {
	return events.Contender{
		Node:    path.Join(dir, f.Name),
		Session: f.Stat.EphemeralOwner,
		Since:   time.UnixMilli(f.Stat.Ctime),
		Data:    session.UserData(f.Name, f.Data),
		Token:   f.Stat.Czxid,
	}
}

// survey reads those of a directory's nodes that are wanted, in no order, with the
// errors of [Lock.Queue].
func (c *Coordinator) survey(ctx context.Context, dir string, wanted func(name string) bool) ([]session.Found, error) {
	return c.look(ctx, dir, func(ctx context.Context) ([]session.Found, error) {
		return c.session.Survey(ctx, dir, wanted)
	})
}

// look reads something at the path until ctx ends or the coordinator is closed.
func (c *Coordinator) look(ctx context.Context, at string, read func(context.Context) ([]session.Found, error)) (found []session.Found, _ error) {
	if err := c.checkPath(at); err != nil {
		return nil, err
	}
	err := c.whileOpen(ctx, func(bounded context.Context) (err error) {
		found, err = read(bounded)
		if err != nil && bounded.Err() == nil { // a server's word
			return fmt.Errorf("zkgrant: looking at %s: %w", at, err)
		}
		return err
	})
	return found, err
}

// whileOpen calls the function with a context that ends with ctx, and with ErrClosed when the coordinator is closed.
func (c *Coordinator) whileOpen(ctx context.Context, read func(context.Context) error) error {
	if c.open.Err() != nil {
		return ErrClosed
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() //nolint:contextcheck // the coordinator's end, beside the caller's
	return read(bounded)
}
