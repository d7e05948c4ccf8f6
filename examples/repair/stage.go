package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// errDead is what a writer panics with.
var errDead = errors.New("dead")

// mortal is a writer that dies over every third change.
type mortal struct {
	*writer

	connection *program.Gate
	changes    int
}

// change is one change, or the end of a process.
func (m *mortal) change(ctx context.Context, lock *coordinator.ReadWrite) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errDead // here the process would end
		}
	}()
	return m.writer.change(ctx, lock)
}

// die ends every third change half-way: now by a panic, now by the end of the connection, after which nobody hears of
// the writer any more.
func (m *mortal) die() {
	m.changes++
	if m.changes%3 != 0 {
		return
	}
	m.tally.add(&m.tally.died)
	m.say("%s  dies half-way", m.name)
	if m.changes%2 == 1 {
		panic(errDead)
	}
	m.connection.Shut()
}

// again has somebody work until ctx ends, and come back as another process when he has died.
func again(
	ctx context.Context, zk *program.ZooKeeper, connection *program.Gate, work func(context.Context, *coordinator.ReadWrite) error, rest time.Duration,
) error {
	for ctx.Err() == nil {
		err := with(ctx, zk, connection, func(lock *coordinator.ReadWrite) error {
			for ctx.Err() == nil {
				var lost *coordinator.LostError
				switch err := work(ctx, lock); {
				case errors.As(err, new(*brokenError)):
					return err
				case errors.Is(err, errDead), errors.As(err, &lost):
					return nil
				case err != nil:
					return err
				}
				select {
				case <-time.After(rest):
				case <-ctx.Done():
				}
			}
			return nil
		})
		if err := unlessEnded(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// with connects, as one process, and has something done with the lock.
func with(ctx context.Context, zk *program.ZooKeeper, connection *program.Gate, do func(*coordinator.ReadWrite) error) error {
	connection.Open()
	c, err := coordinator.Connect(ctx, zk.Servers, append(zk.Options(), coordinator.WithDialer(connection.DialContext))...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // if the servers cannot be reached they end the session by themselves
	return do(c.ReadWrite(pairLock, coordinator.DetectCrash()))
}

// unlessEnded returns an error, unless ctx has ended: then it says no more than that.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.As(err, new(*brokenError)) {
		return nil
	}
	return err
}
