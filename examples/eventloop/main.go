// Command eventloop holds hundreds of locks from one goroutine with one select, as a
// service that must not block would. All events of its locks arrive on one channel, that
// of a coordinator.Group. No goroutine belongs to a lock, or waits for one.
//
//	go run ./examples/eventloop                     on a server inside the program
//	go run ./examples/eventloop -zk host:2181,...   on real servers
//
// stage.go lets two such loops compete for the same 500 locks, each with its own
// coordinator, and checks that they never hold the same one at the same time. The exit
// code is 0, 1 after an error, or 130 after Ctrl-C, which may come at any time and leaves
// no node.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// loop holds each of its locks once, for a while. It runs in one goroutine, so it needs
// no mutex.
type loop struct {
	name  string
	c     *coordinator.Coordinator
	group *coordinator.Group
	hold  time.Duration // how long each lock is held
	show  *show

	under    map[uint64]*coordinator.Acquisition // requested or held, by ID
	held     map[string]*coordinator.Acquisition // held, by path
	dues     []due
	finished int
}

// due is the time to release a lock. All locks are held for equally long, so the first
// one granted is the first one due: a queue and one timer are enough.
type due struct {
	at   time.Time
	path string
	lock *coordinator.Acquisition
}

// run requests every lock and handles the events, until each lock was held for its time,
// ctx ends, or something goes wrong. In each case it closes the group, which releases
// whatever is still held or requested, and reads on to the last event.
func (l *loop) run(ctx context.Context, paths []string) (err error) {
	for _, path := range paths {
		l.ask(ctx, path)
	}
	clock := time.NewTimer(0) // runs while something is held
	defer clock.Stop()
	stop := ctx.Done()
	for {
		select {
		case ev, open := <-l.group.Events():
			if !open {
				return err
			}
			if failure := l.handle(ctx, ev); failure != nil && err == nil {
				err = failure
			}
		case now := <-clock.C:
			l.giveBack(now)
		case <-stop:
			stop, err = nil, context.Cause(ctx)
		}
		if err != nil || l.finished == len(paths) {
			clear(l.held) // a service stops its work first
			l.group.Close()
		}
		if len(l.dues) > 0 {
			clock.Reset(time.Until(l.dues[0].at))
		}
	}
}

// ask requests a lock. It returns at once; the answer arrives as an event.
func (l *loop) ask(ctx context.Context, path string) {
	lock := l.group.Acquire(ctx, l.c.Mutex(path))
	l.under[lock.ID()] = lock
}

// handle is where a service starts its work on Grant, stops it on Lost, and cleans up on
// Ended, which always comes.
func (l *loop) handle(ctx context.Context, ev events.Event) error {
	switch ev := ev.(type) {
	case events.Grant: // from now on the lock is held
		lock := l.under[ev.ID]
		l.held[ev.Path] = lock
		l.dues = append(l.dues, due{time.Now().Add(l.hold), ev.Path, lock})
		return l.show.granted(l, ev, lock)

	case events.Lost: // from now on another process may have it
		delete(l.held, ev.Path)
		l.show.lost(l)

	case events.Ended:
		delete(l.under, ev.ID)
		var lost *coordinator.LostError
		switch {
		case ev.Err == nil: // released
			l.finished++
		case errors.Is(ev.Err, context.Cause(ctx)): // ctx has ended the wait
		case errors.As(ev.Err, &lost):
			l.ask(ctx, ev.Path)
		default:
			return fmt.Errorf("%s: %s: %w", l.name, ev.Path, ev.Err)
		}

	case events.Suspended:
		l.show.say("%s: no connection; its locks are good for another %v", l.name, time.Until(ev.Deadline).Round(time.Millisecond))
	case events.Resumed:
		l.show.say("%s: connected again", l.name)
	case events.SessionExpired:
		l.show.say("%s: its session is over", l.name)
	default: // others such as Queued
	}
	return nil
}

// giveBack releases the locks that are due. Release does not block.
func (l *loop) giveBack(now time.Time) {
	for len(l.dues) > 0 && !l.dues[0].at.After(now) {
		d := l.dues[0]
		l.dues = l.dues[1:]
		if l.held[d.path] != d.lock {
			continue // lost in the meantime
		}
		delete(l.held, d.path) // before Release, after which another process may have it
		d.lock.Release()
	}
}
