package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// openOurs connects a coordinator for one contender.
func openOurs(addr string, timeout time.Duration) func(context.Context, form, string) (goLock, error) {
	return func(ctx context.Context, f form, path string) (goLock, error) {
		c, err := coordinator.Connect(ctx, addr,
			coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(serverTick))
		if err != nil {
			return nil, err
		}
		l := ourLock{c: c}
		if permits, takes := f.permits(); permits > 0 {
			l.ask, l.options = c.Semaphore(path, permits).Acquire, []coordinator.AcquireOption{coordinator.WithPermits(takes)}
			return &l, nil
		}
		var options []coordinator.LockOption
		plain, asKazoo := strings.CutSuffix(string(f), "-kazoo")
		if asKazoo {
			options = append(options, coordinator.AsKazoo())
		}
		switch form(plain) {
		case formMutex:
			l.ask = c.Mutex(path, options...).Acquire
		case formCached:
			l.ask = c.Mutex(path, coordinator.Cached()).Acquire
		case formRevocable:
			l.ask = c.Mutex(path).Acquire
			return &ourRevocable{ourLock: l, stream: c.Events(ctx)}, nil
		case formRead:
			l.ask = c.ReadWrite(path, options...).Read().Acquire
		case formWrite:
			l.ask = c.ReadWrite(path, options...).Write().Acquire
		case formDowngrade:
			both := c.ReadWrite(path)
			l.ask = both.Write().Acquire
			return &ourDowngrade{ourLock: l, reading: both.Read()}, nil
		default:
			return nil, errors.Join(fmt.Errorf("zkgrant has no form %q", f), c.Close())
		}
		return &l, nil
	}
}

// ourLock is a lock of zkgrant's.
type ourLock struct {
	c       *coordinator.Coordinator
	ask     func(context.Context, ...coordinator.AcquireOption) *coordinator.Acquisition
	options []coordinator.AcquireOption
	current *coordinator.Acquisition
	before  *coordinator.Acquisition // released
}

func (l *ourLock) session() int64 { return l.c.SessionID() }

func (l *ourLock) acquire(ctx context.Context, wait time.Duration) (bool, error) {
	options := slices.Clone(l.options)
	if wait >= 0 {
		options = append(options, coordinator.WithMaxWait(wait))
	}
	l.current = l.ask(ctx, options...)
	_, err := l.current.Wait(ctx)
	if errors.Is(err, coordinator.ErrTimeout) {
		return false, nil
	}
	return err == nil, errors.Join(err, l.past())
}

// past returns the error of the acquisition before, which is over when there is another one.
func (l *ourLock) past() error {
	if l.before == nil {
		return nil
	}
	<-l.before.Done()
	return l.before.Err()
}

func (l *ourLock) lost() <-chan events.Lost { return l.current.Lost() }

// release gives the lock back without a wait, as callers do: the next acquire is under way before the node is gone.
func (l *ourLock) release() error {
	l.current.Release()
	l.before = l.current
	return nil
}

func (l *ourLock) close() error { return errors.Join(l.c.Close(), l.past()) }

// ourDowngrade is a writer that becomes a reader.
type ourDowngrade struct {
	ourLock

	reading *coordinator.Lock
	writer  *coordinator.Acquisition
}

func (l *ourDowngrade) shares(ctx context.Context) error {
	reader := l.reading.Acquire(l.current.Context(ctx))
	if _, err := reader.Wait(ctx); err != nil {
		return err
	}
	l.writer, l.current = l.current, reader
	return nil
}

func (l *ourDowngrade) share() error {
	l.writer.Release()
	<-l.writer.Done()
	return l.writer.Err()
}

// ourRevocable is a mutex that reports when it is asked back.
type ourRevocable struct {
	ourLock

	stream <-chan events.Event
}

func (l *ourRevocable) revoked(say func()) {
	for event := range l.stream {
		if _, ok := event.(events.Revoked); ok {
			say()
		}
	}
}
