package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session"
)

// naive is a contender with the stock recipe. It trusts the last answer until its client
// reports an expired session. If careful, it also gives up the lock at each disconnect.
type naive struct {
	*body

	conn *zk.Conn
	path string
	said saying
	crew sync.WaitGroup
}

// contendNaively runs a contender that uses the stock recipe.
func contendNaively(ctx context.Context, where *servers, b *body) error {
	servers, err := session.ParseConnectString(where.zk.Servers)
	if err != nil {
		return err
	}
	n := &naive{body: b, path: servers.Chroot + lockPath + "/" + naiveSide, said: saying{news: make(chan struct{}, 1)}}
	conn, news, err := zk.Connect(servers.Hosts, where.zk.Timeout, zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(b.dial(ctx)), zk.WithEventCallback(n.said.hear))
	if err != nil {
		return err
	}
	n.conn = conn
	defer func() {
		conn.Close()
		for range news { // ends when the client's goroutines have ended
		}
		n.crew.Wait()
	}()
	for ctx.Err() == nil {
		if err := n.turn(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// turn queues for the lock once, and works until the lock is lost or handed on.
func (n *naive) turn(ctx context.Context) error {
	lock := newRecipe(n.conn, n.path, n.name)
	ahead, acquired, gone := make(chan int), make(chan error, 1), make(chan released, 1)
	n.crew.Go(func() {
		acquired <- lock.acquire(ctx, func(count int) {
			select {
			case ahead <- count:
			case <-ctx.Done():
			}
		})
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case count := <-ahead:
			n.is(waits, fmt.Sprintf("%d ahead", count))
		case err := <-acquired:
			if err != nil {
				return err
			}
			n.is(holds, "its node is the first")
		case <-n.said.news:
			connected, expired := n.said.take()
			n.connected(connected)
			switch {
			case expired && n.state == holds:
				n.is(lost, "notified: session expired")
				return nil
			case expired && n.state != lost:
				n.is(away, "queues again, in a new session")
			case !connected && n.state == holds && n.careful.Load():
				n.is(lost, "notified: disconnected")
				n.crew.Go(func() { gone <- lock.release(ctx) }) // once there is a connection again
			}
		case <-n.handOn:
			if n.state == holds {
				n.is(away, "gives it back")
				n.crew.Go(func() { gone <- lock.release(ctx) })
			}
		case done := <-gone:
			if n.state == lost && done.there {
				n.gaveUpNeedlessly()
			}
			return done.err
		case wake := <-n.pause:
			n.standStill(ctx, wake)
			n.tell(n.state) // it believes what it believed before
		}
	}
}

// saying holds the client's latest report. The client's goroutines call hear, which must
// not block.
type saying struct {
	news chan struct{} // of size 1

	mu                 sync.Mutex
	connected, expired bool
}

func (s *saying) hear(ev zk.Event) {
	s.mu.Lock()
	switch ev.State {
	case zk.StateHasSession:
		s.connected = true
	case zk.StateDisconnected:
		s.connected = false
	case zk.StateExpired:
		s.connected, s.expired = false, true
	default: // a transient state
	}
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default: // the reader has been notified already
	}
}

// take reports whether the client is connected, and whether a session has expired since
// the last call.
func (s *saying) take() (connected, expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	connected, expired = s.connected, s.expired
	s.expired = false
	return connected, expired
}
