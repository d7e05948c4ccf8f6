package session

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// slowConn takes one write at a time, when the test lets it.
type slowConn struct {
	net.Conn // nil: nothing else is called
	turn     chan error
	mu       sync.Mutex
	writes   [][]byte
	by       time.Time
}

func (c *slowConn) Write(p []byte) (int, error) {
	if err := <-c.turn; err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, bytes.Clone(p))
	return len(p), nil
}

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by = t
	return nil
}

func goes(f func()) bool {
	go f()
	return true
}

func TestOutboxSendsInOrderAndWithFewCalls(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		conn := &slowConn{turn: make(chan error)}
		o := newOutbox(conn, goes, func(err error) { t.Error(err) })
		by := time.Now().Add(time.Second)
		o.put([]byte("a"), by, false)
		synctest.Wait() // it is being sent
		for _, p := range []string{"b", "c", "d"} {
			o.put([]byte(p), by.Add(time.Second), false)
		}
		conn.turn <- nil
		conn.turn <- nil
		synctest.Wait()
		o.put([]byte("e"), by, false)
		conn.turn <- nil
		synctest.Wait()
		if got := string(bytes.Join(conn.writes, []byte("|"))); got != "a|bcd|e" {
			t.Errorf("the writes are %s, want a|bcd|e", got)
		}
		if !conn.by.Equal(by) {
			t.Errorf("the deadline is %v, want %v", conn.by, by)
		}
	})
}

func TestOutboxMakesAWriterWaitWhenItIsFull(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		conn := &slowConn{turn: make(chan error)}
		o := newOutbox(conn, goes, func(error) {})
		put := make(chan int, 10)
		o.put(make([]byte, 1), time.Time{}, false)
		synctest.Wait() // it is being sent
		go func() {
			for i := range 4 {
				o.put(make([]byte, outboxFull), time.Time{}, false)
				put <- i
			}
		}()
		synctest.Wait()
		if n := len(put); n != 2 { // one is the limit, and one more is beyond it
			t.Errorf("%d puts did not wait, want 2", n)
		}
		conn.turn <- nil
		synctest.Wait()
		if n := len(put); n != 4 {
			t.Errorf("%d were put when there was room again, want all 4", n)
		}
		conn.turn <- os.ErrDeadlineExceeded
		synctest.Wait()
	})
}

func TestOutboxThatBreaksTellsOnceAndKeepsNothing(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		conn := &slowConn{turn: make(chan error)}
		var told []error
		o := newOutbox(conn, goes, func(err error) { told = append(told, err) })
		o.put([]byte("a"), time.Time{}, false)
		synctest.Wait()
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			for range 4 {
				o.put(make([]byte, outboxFull), time.Time{}, false)
			}
		}()
		synctest.Wait()
		conn.turn <- net.ErrClosed
		<-waits // nobody waits for a connection that is gone
		o.put([]byte("b"), time.Time{}, false)
		synctest.Wait()
		if len(told) != 1 || !errors.Is(told[0], net.ErrClosed) || len(conn.writes) != 0 {
			t.Errorf("told %v after %d writes, want the one error and no write", told, len(conn.writes))
		}
	})
}

// TestOutboxAloneSpawnsNothing: the bytes have gone when put returns.
func TestOutboxAloneSpawnsNothing(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		conn := &slowConn{turn: make(chan error, 1)}
		started := 0
		o := newOutbox(conn, func(f func()) bool { started++; return goes(f) }, func(err error) { t.Error(err) })
		conn.turn <- nil
		o.put([]byte("a"), time.Time{}, true)
		if started != 0 || len(conn.writes) != 1 {
			t.Errorf("%d goroutines, %d writes when put returns; want 0 and 1", started, len(conn.writes))
		}
		o.put([]byte("b"), time.Time{}, false)
		synctest.Wait()                       // b is being sent,
		o.put([]byte("c"), time.Time{}, true) // so c is not alone after all
		conn.turn <- nil
		synctest.Wait()
		conn.turn <- nil
		synctest.Wait()
		if got := string(bytes.Join(conn.writes, []byte("|"))); got != "a|b|c" || started != 1 {
			t.Errorf("the writes are %s, by %d goroutines; want a|b|c by 1", got, started)
		}
	})
}
