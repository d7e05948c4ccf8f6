//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// hold waits for the lock, runs the command while it is held, and returns the exit
// code. The lock is given back behind it, by Close.
func hold(c *coordinator.Coordinator, opt options, signals *signals) int {
	// The kernel takes the end of the thread that started the command for the end
	// of this process: the thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var news <-chan events.Event // nil, which is never ready, unless they are wanted
	if opt.verbose {
		news = c.Events(ctx)
	}
	lock := c.Mutex(opt.path).Acquire(ctx, opt.acquire()...)
	defer lock.Release()

	var (
		command *group
		ended   <-chan struct{} // the command has; nil until it is started
	)
	for {
		select {
		case grant := <-lock.Granted():
			var err error
			command, err = start(opt.command, "ZKGRANT_TOKEN="+strconv.FormatInt(grant.Token, 10), "ZKGRANT_PATH="+opt.path)
			if err != nil {
				return notStarted(err)
			}
			ended = command.ended

		case lost := <-lock.Lost():
			return opt.halt(command, lost.Reason)

		case <-ended:
			return opt.outcome(command, lock.Valid)

		case <-lock.Done():
			if command == nil {
				return notHeld(c, opt.path, lock.Err())
			}
			// It is lost, and select took this of two that were ready.
			return opt.halt(command, cause(lock.Err()))

		case sig := <-signals.c:
			if command != nil {
				signals.pass(sig, command, lock.Valid)
			} else if code := signals.whileWaiting(sig); code != 0 {
				return code
			}

		case ev := <-news:
			report(ev)
		}
	}
}

// cause is the reason for a loss, or the error if it is of another kind.
func cause(err error) any {
	var lost *coordinator.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return err
}

// halt ends the command, for the lock is lost.
func (opt options) halt(command *group, why any) int {
	say("LOST %s: %v; ending the command", opt.path, why)
	command.end(opt.grace)
	return codeLost
}

// outcome is the exit code when the command has ended by itself. Its own will do only
// if the lock is still valid: this process may have slept while the command did its
// last work.
func (opt options) outcome(command *group, valid func() bool) int {
	if valid() {
		return command.code()
	}
	say("LOST %s before the command ended", opt.path)
	command.end(opt.grace) // what is left of its group
	return codeLost
}

// acquire is how the lock is asked for. Others who look at the queue see who we
// are, and what for.
func (opt options) acquire() []coordinator.AcquireOption {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	who := fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), strings.Join(opt.command, " "))
	const most = 1000 // a command line may be longer than a node
	options := []coordinator.AcquireOption{coordinator.WithData([]byte(who[:min(len(who), most)]))}
	if opt.try {
		options = append(options, coordinator.Try())
	}
	if opt.maxWait > 0 {
		options = append(options, coordinator.WithMaxWait(opt.maxWait))
	}
	return options
}

// notHeld says why the lock could not be had, and returns the code for that.
func notHeld(c *coordinator.Coordinator, path string, err error) int {
	var lost *coordinator.LostError
	switch {
	case errors.Is(err, coordinator.ErrNotAcquired):
		say("somebody else has %s", path)
		return codeTaken
	case errors.Is(err, coordinator.ErrTimeout):
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Ready(now); err != nil { // it has waited for a server
			say("connecting: %v", err)
			return codeFailed
		}
		say("waited too long for %s", path)
		return codeTaken
	case errors.As(err, &lost):
		say("LOST %s before the command was started: %v", path, lost.Reason)
		return codeLost
	default:
		say("%s: %v", path, err)
		return codeFailed
	}
}

// report says what happens besides the loss.
func report(ev events.Event) {
	switch ev := ev.(type) {
	case events.Queued:
		say("waiting, %d ahead", ev.Ahead)
	case events.Requeued:
		say("waiting again, the place was lost")
	case events.Grant:
		say("granted after %v, token %d", ev.Waited.Round(time.Millisecond), ev.Token)
	case events.Suspended:
		say("no connection; what is held is good for another %v", max(0, time.Until(ev.Deadline)).Round(time.Millisecond))
	case events.Resumed:
		say("connected again")
	default:
	}
}
