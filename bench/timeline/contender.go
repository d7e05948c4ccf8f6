package main

import (
	"context"
	"encoding/json"
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

// seat is where a contender finds its lock.
type seat struct {
	Addr    string
	Path    string
	Timeout time.Duration // of its session
	Tick    time.Duration // of the server
}

// arguments returns the arguments that make the program a contender with the library.
func (at seat) arguments(library string) []string {
	text, _ := json.Marshal(at) // it cannot fail
	return []string{contendCommand, library, string(text)}
}

type say func(w what, own string)

// contend takes a lock with one of the Go libraries and prints what the library reports,
// until the input ends. It is the main function of a contender's process.
func contend(ctx context.Context, library string, at seat, input io.Reader, output io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		// The input carries no data. An error ends the process just like the end of the
		// input.
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

// askEvery is how often the contender checks zkgrant's Valid.
const askEvery = time.Millisecond

func contendOurs(ctx context.Context, at seat, tell say) (err error) {
	c, err := coordinator.Connect(ctx, at.Addr,
		coordinator.WithSessionTimeout(at.Timeout), coordinator.WithTickTime(at.Tick))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tell(toldConnected, "Connect returned")
	news := c.Events(ctx)
	lock := c.Mutex(at.Path).Acquire(ctx)
	var ask <-chan time.Time // while the contender believes that it holds the lock
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
			check() // Valid may have changed less than a millisecond earlier
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

// tellEvent reports the events about the connection.
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
		if event.Err != nil && event.Held == 0 { // otherwise Lost was reported
			tell(toldOther, "Ended: "+event.Err.Error())
		}
	default: // events of the lock have their own channels
	}
}

func contendStock(ctx context.Context, at seat, tell say) error {
	conn, news, err := zk.Connect([]string{at.Addr}, at.Timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close() // also ends a pending Lock
	go func() {
		if err := zk.NewLock(conn, at.Path, zk.WorldACL(zk.PermAll)).Lock(); err != nil {
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
