package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// writer changes the two nodes, again and again.
type writer struct {
	name    string
	pair    *pair
	tally   *tally
	say     func(string, ...any)
	halfway func() // between the two changes; it may panic
}

// change is one change under the write lock. If somebody has died over his, that is repaired first.
func (w *writer) change(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Write().Do(ctx, func(ctx context.Context, grant events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		held := lock.Context(context.WithoutCancel(ctx)) // what is begun is finished, also on Ctrl-C
		if grant.Abandoned != nil {
			if err := w.repair(held, lock, grant.Abandoned); err != nil {
				return err
			}
		}
		return w.write(held, lock, fmt.Sprintf("version %#x", grant.Token))
	}, coordinator.WithData([]byte(w.name)))
}

// write changes one node after the other. While `ready` is gone, they may be of two versions.
func (w *writer) write(held context.Context, lock *coordinator.Acquisition, version string) error {
	if err := must(held, lock, remove(ready), zk.ErrNoNode); err != nil {
		return err
	}
	if err := must(held, lock, set(left, version), nil); err != nil {
		return err
	}
	w.halfway()
	if err := must(held, lock, set(right, version), nil); err != nil {
		return err
	}
	if err := must(held, lock, create(ready), zk.ErrNodeExists); err != nil {
		return err
	}
	w.tally.add(&w.tally.written)
	return nil
}

// repair makes whole what somebody has left behind who never released: it may have been changed by half, or not at
// all, or be whole. Who repairs may die as well; then the next one does it again.
func (w *writer) repair(held context.Context, lock *coordinator.Acquisition, left *events.Abandoned) error {
	found, err := w.pair.read()
	for err != nil { // to return would be to release, and nobody would repair it any more
		select {
		case <-time.After(100 * time.Millisecond):
		case <-held.Done():
			return context.Cause(held)
		}
		found, err = w.pair.read()
	}
	if !found.whole() {
		if err := must(held, lock, set(right, found.left), nil); err != nil {
			return err
		}
		w.tally.add(&w.tally.repaired)
	}
	if err := must(held, lock, create(ready), zk.ErrNodeExists); err != nil {
		return err
	}
	w.say("%s  has looked after what %s left behind (since %s): whole %v", w.name, left.Data, left.Since.Format(time.TimeOnly), found.whole())
	return nil
}

// prepare makes the nodes, if there are none.
func prepare(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Write().Do(ctx, func(ctx context.Context, _ events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		// In one transaction: there are all of them, or none.
		_, err := lock.Txn(ctx, create(left), create(right), create(ready))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}
