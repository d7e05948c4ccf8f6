package interop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
)

// connectStock opens a session with the go-zookeeper client. The caller must Close it.
func connectStock(ctx context.Context, addr string, timeout time.Duration) (*zk.Conn, error) {
	conn, happened, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case event, open := <-happened:
			if !open {
				return nil, zk.ErrClosing
			}
			if event.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// quiet drops the client's log.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(string, ...any) {}

// openStock connects a session of go-zookeeper for one contender.
func openStock(addr string, timeout time.Duration) func(context.Context, form, string) (goLock, error) {
	return func(ctx context.Context, f form, path string) (goLock, error) {
		if f != formLock {
			return nil, fmt.Errorf("go-zookeeper has no form %q", f)
		}
		conn, err := connectStock(ctx, addr, timeout)
		if err != nil {
			return nil, err
		}
		return stockLock{conn: conn, lock: zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))}, nil
	}
}

// stockLock is the lock that comes with go-zookeeper.
type stockLock struct {
	conn *zk.Conn
	lock *zk.Lock
}

func (l stockLock) session() int64 { return l.conn.SessionID() }

// acquire can only wait without end: a Lock has no time limit.
func (l stockLock) acquire(_ context.Context, wait time.Duration) (bool, error) {
	if wait < 0 {
		return true, l.lock.Lock()
	}
	return l.acquireWithin(wait)
}

// acquireWithin ends the session to end the wait, as the lock has no other way. Nothing can be acquired afterwards.
func (l stockLock) acquireWithin(wait time.Duration) (bool, error) {
	locked := make(chan error, 1)
	go func() { locked <- l.lock.Lock() }()
	overdue := time.NewTimer(wait)
	defer overdue.Stop()
	select {
	case err := <-locked:
		return err == nil, err
	case <-overdue.C:
		l.conn.Close()
		// Even if granted in the last moment, it is over.
		err := <-locked
		if err != nil && !errors.Is(err, zk.ErrClosing) && !errors.Is(err, zk.ErrConnectionClosed) {
			return false, err
		}
		return false, nil
	}
}

func (stockLock) lost() <-chan events.Lost { return nil } // this library never reports a loss

func (l stockLock) release() error { return l.lock.Unlock() }

func (l stockLock) close() error {
	l.conn.Close()
	return nil
}
