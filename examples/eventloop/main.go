// Command eventloop holds hundreds of locks from one goroutine with one select, as a service that must not block does. Every event of
// every lock comes out of one channel, Coordinator.Events. No lock has a goroutine of its own, and no goroutine waits for a lock.
//
//	go run ./examples/eventloop                     on a server inside the program
//	go run ./examples/eventloop -zk host:2181,...   on a real one, chroot and all
//
// stage.go lets two such loops compete for the same 500 locks, each with its own coordinator, and checks that they never hold one
// together. The exit code is 0, 1 if an error ends it, or 130 after Ctrl-C, which may come at any time and leaves no node.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// loop holds each of its locks once, for a while. One goroutine runs it, so it needs no mutex.
type loop struct {
	name string
	c    *coordinator.Coordinator
	hold time.Duration // how long each lock is held
	show *show

	under    map[uint64]*coordinator.Acquisition // what is asked for or held, by ID
	held     map[string]*coordinator.Acquisition // what is held, by path
	dues     []due
	finished int
}

// due says when to give a lock back. All locks are held for the same time, so the first granted is the first due: a queue and one timer
// are enough.
type due struct {
	at   time.Time
	path string
	lock *coordinator.Acquisition
}

// run asks for every lock and handles the events, until each lock was held for its time, or ctx ends. The caller gives back what is then
// still held or asked for, by closing the coordinator.
func (l *loop) run(ctx context.Context, paths []string) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream, however run returns
	defer cancel()
	news := l.c.Events(ctx)
	for _, path := range paths {
		l.ask(ctx, path)
	}
	clock := time.NewTimer(0) // runs while something is held
	defer clock.Stop()
	for l.finished < len(paths) {
		select {
		case ev := <-news:
			if err := l.handle(ctx, ev); err != nil {
				return err
			}
		case now := <-clock.C:
			l.giveBack(now)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if len(l.dues) > 0 {
			clock.Reset(time.Until(l.dues[0].at))
		}
	}
	return nil
}

// ask asks for a lock. It returns at once; the answer is an event.
func (l *loop) ask(ctx context.Context, path string) {
	lock := l.c.Mutex(path).Acquire(ctx)
	l.under[lock.ID()] = lock
}

// handle is where a service does its work: start it on Grant, stop it on Lost.
func (l *loop) handle(ctx context.Context, ev events.Event) error {
	switch ev := ev.(type) {
	case events.Grant: // the event only tells of it: it is taken from Granted, which has it by now
		lock := l.under[ev.ID]
		select {
		case <-lock.Granted():
		default: // taken back, because ctx has ended: the Ended is next
			return nil
		}
		l.held[ev.Path] = lock
		l.dues = append(l.dues, due{time.Now().Add(l.hold), ev.Path, lock})
		return l.show.granted(l, ev, lock)

	case events.Lost: // the last event of this acquisition: ask again
		delete(l.under, ev.ID)
		delete(l.held, ev.Path)
		l.show.lost(l)
		l.ask(ctx, ev.Path)

	case events.Ended: // released, or refused
		delete(l.under, ev.ID)
		if ev.Err != nil && ctx.Err() == nil { // the end of ctx ends all waiters, too
			return fmt.Errorf("%s: %s: %w", l.name, ev.Path, ev.Err)
		}
		l.finished++

	case events.Suspended:
		l.show.say("%s: no connection; its locks are good for another %v", l.name, time.Until(ev.Deadline).Round(time.Millisecond))
	case events.Resumed:
		l.show.say("%s: connected again", l.name)
	case events.SessionExpired:
		l.show.say("%s: its session is over", l.name)
	default: // others such as Queued, or nil if ctx has ended the stream
	}
	return nil
}

// giveBack releases what is due. Release does not wait.
func (l *loop) giveBack(now time.Time) {
	for len(l.dues) > 0 && !l.dues[0].at.After(now) {
		d := l.dues[0]
		l.dues = l.dues[1:]
		if l.held[d.path] != d.lock {
			continue // lost in the meantime
		}
		delete(l.held, d.path) // before the Release, from which on another process may have it
		d.lock.Release()
	}
}
