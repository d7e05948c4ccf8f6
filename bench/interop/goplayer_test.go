package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events"
)

// playEnv, in the environment, makes the test binary a player of the family that it
// names.
const playEnv = "ZKGRANT_INTEROP_PLAYER"

func TestMain(m *testing.M) {
	child.Job(playEnv, func(f string) error { return play(context.Background(), family(f), os.Args[1:]) })
	status := m.Run()
	if err := errors.Join(theArena.close(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// goLock is the lock of a contender of one of the Go libraries. It is used by one
// goroutine.
type goLock interface {
	session() int64
	// acquire waits for the lock, at most for wait, or without limit if wait is negative.
	acquire(ctx context.Context, wait time.Duration) (bool, error)
	release() error
	close() error
}

// goPlayer runs contenders of one of the Go libraries.
type goPlayer struct {
	addr    string
	timeout time.Duration
	// open creates a lock object. If before is not nil, the new one uses its session.
	open func(ctx context.Context, p *goPlayer, before goLock, f form, path string, revoked func()) (goLock, error)

	mu sync.Mutex // guards the output, so that lines are not mixed
}

// play is the main function of a Go player's process. It carries out orders until the
// input ends. A contender that is still waiting then is abandoned.
func play(ctx context.Context, f family, args []string) error {
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	p := &goPlayer{addr: args[0], timeout: time.Duration(ms) * time.Millisecond, open: openOurs}
	if f == stock {
		p.open = openStock
	}
	contenders := make(map[string]chan []string)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		order := strings.Fields(lines.Text())
		orders := contenders[order[1]]
		if orders == nil {
			orders = make(chan []string, 8)
			contenders[order[1]] = orders
			go p.contend(ctx, order[1], orders)
		}
		orders <- order
	}
	return lines.Err()
}

func (p *goPlayer) say(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Ignore the error: if nobody reads the output, the input will end, too.
	_, _ = io.WriteString(os.Stdout, strings.Join(words, " ")+"\n")
}

// contend carries out the orders for one contender.
func (p *goPlayer) contend(ctx context.Context, name string, orders <-chan []string) {
	var lock goLock
	for order := range orders {
		word, text := order[0], ""
		var err error
		switch word {
		case orderOpen:
			lock, err = p.open(ctx, p, lock, form(order[2]), order[3], func() { p.say(newsRevoked, name) })
			if err == nil {
				text = strconv.FormatInt(lock.session(), 10)
			}
		case orderAcquire:
			ms, bad := strconv.Atoi(order[2])
			entered, failed := lock.acquire(ctx, time.Duration(ms)*time.Millisecond)
			if err = errors.Join(bad, failed); !entered {
				word = newsBusy
			}
		case orderShares:
			err = lock.(*ourLock).shares(ctx)
		case orderShare:
			err = lock.(*ourLock).share()
		case orderRelease:
			err = lock.release()
		case orderClose:
			err = lock.close()
		default:
			err = errors.New("no order")
		}
		if err != nil {
			word, text = newsFail, strings.Join(strings.Fields(err.Error()), " ")
		}
		p.say(word, name, text)
	}
}

// ourLock is a lock of zkgrant's.
type ourLock struct {
	c       *coordinator.Coordinator
	ask     func(context.Context, ...coordinator.AcquireOption) *coordinator.Acquisition
	options []coordinator.AcquireOption
	reading *coordinator.Lock // for a writer that becomes a reader
	current *coordinator.Acquisition
	before  *coordinator.Acquisition // the released acquisition, or the writer's
}

// openOurs connects a coordinator for one contender.
func openOurs(ctx context.Context, p *goPlayer, _ goLock, f form, path string, revoked func()) (goLock, error) {
	c, err := coordinator.Connect(ctx, p.addr, coordinator.WithSessionTimeout(p.timeout), coordinator.WithTickTime(serverTick))
	if err != nil {
		return nil, err
	}
	l := &ourLock{c: c}
	if permits, takes := f.permits(); permits > 0 {
		l.ask, l.options = c.Semaphore(path, permits).Acquire, []coordinator.AcquireOption{coordinator.Permits(takes)}
		return l, nil
	}
	var options []coordinator.LockOption
	plain, asKazoo := strings.CutSuffix(string(f), "-kazoo")
	if asKazoo {
		options = append(options, coordinator.AsKazoo())
	}
	switch form(plain) {
	case formMutex:
		l.ask = c.Mutex(path, options...).Acquire
	case formElection:
		l.ask = c.Election(path, options...).Acquire
	case formCached:
		l.ask = c.Mutex(path, coordinator.Cached()).Acquire
	case formRevocable:
		l.ask = c.Mutex(path).Acquire
		stream := c.Events(ctx)
		go func() {
			for event := range stream {
				if _, ok := event.(events.Revoked); ok {
					revoked()
				}
			}
		}()
	case formRead:
		l.ask = c.ReadWrite(path, options...).Read().Acquire
	case formWrite:
		l.ask = c.ReadWrite(path, options...).Write().Acquire
	case formDowngrade:
		l.ask, l.reading = c.ReadWrite(path).Write().Acquire, c.ReadWrite(path).Read()
	default:
		return nil, errors.Join(fmt.Errorf("zkgrant has no form %q", f), c.Close())
	}
	return l, nil
}

func (l *ourLock) session() int64 { return l.c.SessionID() }

func (l *ourLock) acquire(ctx context.Context, wait time.Duration) (bool, error) {
	options := slices.Clone(l.options)
	if wait >= 0 {
		options = append(options, coordinator.MaxWait(wait))
	}
	l.current = l.ask(ctx, options...)
	_, err := l.current.Wait(ctx)
	if errors.Is(err, coordinator.ErrTimeout) {
		return false, nil
	}
	return err == nil, errors.Join(err, l.past())
}

// past returns the error of the previous acquisition, which has ended when there is
// another one.
func (l *ourLock) past() error {
	if l.before == nil {
		return nil
	}
	<-l.before.Done()
	return l.before.Err()
}

func (l *ourLock) shares(ctx context.Context) error {
	reader := l.reading.Acquire(l.current.Context(ctx))
	_, err := reader.Wait(ctx)
	l.before, l.current = l.current, reader
	return err
}

func (l *ourLock) share() error {
	l.before.Release()
	return l.past()
}

// release releases the lock without waiting, as callers do: the next acquire starts
// before the node is gone.
func (l *ourLock) release() error {
	select {
	case lost := <-l.current.Lost():
		return fmt.Errorf("lost: %v", lost.Reason)
	default:
	}
	l.current.Release()
	l.before = l.current
	return nil
}

func (l *ourLock) close() error { return errors.Join(l.c.Close(), l.past()) }

// stockLock is go-zookeeper's own lock.
type stockLock struct {
	conn *zk.Conn
	lock *zk.Lock
}

func openStock(ctx context.Context, p *goPlayer, before goLock, f form, path string, _ func()) (goLock, error) {
	if f != formLock {
		return nil, fmt.Errorf("go-zookeeper has no form %q", f)
	}
	l, connected := before.(stockLock)
	if !connected {
		var err error
		if l.conn, err = peers.Connect(ctx, p.addr, p.timeout, nil); err != nil {
			return nil, err
		}
	}
	l.lock = zk.NewLock(l.conn, path, zk.WorldACL(zk.PermAll))
	return l, nil
}

func (l stockLock) session() int64 { return l.conn.SessionID() }

// acquire ends the session to end the wait, because the lock offers no other way.
// Afterwards nothing can be acquired.
func (l stockLock) acquire(_ context.Context, wait time.Duration) (bool, error) {
	if wait < 0 {
		return true, l.lock.Lock()
	}
	overdue := time.AfterFunc(wait, l.conn.Close)
	err := l.lock.Lock()
	if overdue.Stop() {
		return err == nil, err
	}
	// Even if granted at the last moment, the session is closed.
	if err != nil && !errors.Is(err, zk.ErrClosing) && !errors.Is(err, zk.ErrConnectionClosed) {
		return false, err
	}
	return false, nil
}

func (l stockLock) release() error { return l.lock.Unlock() }

func (l stockLock) close() error {
	l.conn.Close()
	return nil
}
