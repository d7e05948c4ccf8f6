package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// seat says where a contender finds its lock.
type seat struct {
	addr    string
	path    string
	timeout time.Duration // of its session
	tick    time.Duration // of the server
}

type say func(w what, own string)

// contend takes a lock with one of the Go libraries and prints what the library tells it,
// until the input ends. A contender's process runs it.
func contend(ctx context.Context, library string, at seat, input io.Reader, output io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		// The input carries no data. An error ends the process as the end of the input
		// does.
		_, _ = io.Copy(io.Discard, input)
	}()
	var one sync.Mutex // one line at a time
	tell := func(w what, own string) {
		one.Lock()
		defer one.Unlock()
		fmt.Fprintln(output, formatTold(w, own))
	}
	switch library {
	case keyStock:
		return contendStock(ctx, at, tell)
	case keyOurs:
		return contendOurs(ctx, at, tell)
	default:
		return fmt.Errorf("no library %q to contend with", library)
	}
}

// askEvery is how often the contender asks zkgrant whether the lock is still valid.
const askEvery = time.Millisecond

func contendOurs(ctx context.Context, at seat, tell say) (err error) {
	c, err := coordinator.Connect(ctx, at.addr,
		coordinator.WithSessionTimeout(at.timeout), coordinator.WithTickTime(at.tick))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tell(toldConnected, "Connect returned")
	news := c.Events(ctx)
	lock := c.Mutex(at.path).Acquire(ctx)
	var ask <-chan time.Time // while the contender believes to hold the lock
	check := func() {
		if ask != nil && !lock.Valid() {
			ask = nil
			tell(toldInvalid, "Valid() is false")
		}
	}
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		select {
		case <-lock.Granted():
			tell(toldGranted, "Grant")
			ask = ticker.C
		case lost := <-lock.Lost():
			check() // the end may have come first, by less than a millisecond
			tell(toldLost, "Lost: "+lost.Reason.String())
		case <-ask:
			check()
		case event, open := <-news:
			if !open {
				return nil
			}
			tellEvent(tell, event)
		case <-ctx.Done():
			return nil
		}
	}
}

// tellEvent reports the events that concern the connection.
func tellEvent(tell say, event events.Event) {
	switch event := event.(type) {
	case events.Suspended:
		tell(toldSuspended, "Suspended")
	case events.Resumed:
		tell(toldConnected, "Resumed")
	case events.Connected:
		tell(toldConnected, "Connected")
	case events.SessionExpired:
		tell(toldOther, "SessionExpired")
	case events.Ended:
		if event.Err != nil && event.Held == 0 { // else its Lost was told
			tell(toldOther, "Ended: "+event.Err.Error())
		}
	default: // of the lock, which has its own channels
	}
}

func contendStock(ctx context.Context, at seat, tell say) error {
	conn, news, err := zk.Connect([]string{at.addr}, at.timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close() // this ends a Lock under way, too
	go func() {
		if err := zk.NewLock(conn, at.path, zk.WorldACL(zk.PermAll)).Lock(); err != nil {
			tell(toldFailed, "Lock: "+err.Error())
			return
		}
		tell(toldGranted, "Lock returned")
	}()
	for {
		select {
		case event := <-news:
			if event.Type != zk.EventSession {
				continue
			}
			switch event.State {
			case zk.StateHasSession:
				tell(toldConnected, event.State.String())
			case zk.StateDisconnected:
				tell(toldSuspended, event.State.String())
			case zk.StateExpired:
				tell(toldLost, event.State.String()+"; zk.Lock says nothing")
			default: // a transient state
			}
		case <-ctx.Done():
			return nil
		}
	}
}
