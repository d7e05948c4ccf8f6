package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// pricesLock is the lock of the table.
const pricesLock = "/zkgrant/readerswriter/prices"

// person reads or writes, in turns.
type person struct {
	name   string
	prices *table
	say    func(string, ...any)
}

// read is one reading under the read lock. Other readers may be there.
func (p *person) read(ctx context.Context, lock *coordinator.ReadWrite) error {
	err := lock.Read().Do(ctx, func(ctx context.Context, _ events.Grant) error {
		return p.prices.look(ctx)
	})
	if err != nil {
		return unlessLost(err)
	}
	return pause(ctx, 100*time.Millisecond)
}

// write is one change under the write lock, and then a look at it among the readers.
func (p *person) write(ctx context.Context, lock *coordinator.ReadWrite) error {
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	write := lock.Write().Acquire(ctx)
	defer write.Release()
	grant, err := write.Wait(ctx)
	if err != nil {
		return unlessLost(err)
	}
	version, err := p.prices.change(write.Context(ctx))
	if err != nil {
		return unlessLost(err)
	}
	p.say("%s  has written version %d, token %#x", p.name, version, grant.Token)

	// Downgrade. The context says that it is the holder of the write lock who asks, so
	// nobody has to be waited for; no other writer comes between the two.
	read := lock.Read().Acquire(write.Context(ctx))
	defer read.Release()
	if _, err := read.Wait(ctx); err != nil {
		return unlessLost(err)
	}
	write.Release()
	return unlessLost(p.prices.lookAt(read.Context(ctx), version))
}

// revise reads among the readers, and takes the write lock only if what it has read says so. Another writer may come in between
// the two, so under the write lock it looks again before it writes.
func (p *person) revise(ctx context.Context, lock *coordinator.ReadWrite) error {
	var seen int
	err := lock.Read().Do(ctx, func(ctx context.Context, _ events.Grant) error {
		seen = p.prices.version()
		return p.prices.look(ctx)
	})
	if err != nil {
		return unlessLost(err)
	}
	if seen%2 == 0 {
		return pause(ctx, 100*time.Millisecond)
	}

	// The read lock is released: to ask with its context would be ErrDeadlock.
	return unlessLost(lock.Write().Do(ctx, func(ctx context.Context, grant events.Grant) error {
		now := p.prices.version()
		if now%2 == 0 {
			p.say("%s  has read version %d, and then found %d: nothing to write any more", p.name, seen, now)
			return nil
		}
		version, err := p.prices.change(ctx)
		if err != nil {
			return err
		}
		p.say("%s  has read version %d and written %d, token %#x", p.name, now, version, grant.Token)
		return nil
	}))
}

// unlessLost returns an error, unless it is the loss of a lock: then the work is to
// be done again.
func unlessLost(err error) error {
	var lost *coordinator.LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}
