package wire

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// slowConn accepts one write at a time, when the test lets it.
type slowConn struct {
	net.Conn // nil: no other method is called
	turn     chan error
	writes   [][]byte
	by       time.Time
}

func (c *slowConn) Write(p []byte) (int, error) {
	if err := <-c.turn; err != nil {
		return 0, err
	}
	c.writes = append(c.writes, bytes.Clone(p))
	return len(p), nil
}

func (c *slowConn) Close() error { return nil }

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.by = t
	return nil
}

// sending is a wire that sends to a slowConn.
type sending struct {
	*wire
	conn    *slowConn
	started int // goroutines
	told    []error
}

// withOutbox runs the test with an outbox in virtual time.
func withOutbox(t *testing.T, test func(t *testing.T, o *sending)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		o := &sending{conn: &slowConn{turn: make(chan error, 1)}}
		o.wire = established(t, Events{Start: func(f func()) bool { o.started++; go f(); return true }}).wire
		o.wire.conn = o.conn
		o.report = func(err error) { o.told = append(o.told, err) }
		test(t, o)
	})
}

// turns lets writes happen, one after another.
func (o *sending) turns(ends ...error) {
	for _, err := range ends {
		o.conn.turn <- err
		synctest.Wait()
	}
}

// wantSent fails the test unless exactly these writes were made, by this many goroutines.
func (o *sending) wantSent(t *testing.T, want string, started int) {
	t.Helper()
	if got := string(bytes.Join(o.conn.writes, []byte("|"))); got != want || o.started != started {
		t.Errorf("the writes are %s, by %d goroutines; want %s by %d", got, o.started, want, started)
	}
}

func TestOutboxSendsInOrderAndWithFewCalls(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		by := time.Now().Add(time.Second)
		put := func(frame string, by time.Time) {
			o.mu.Lock()
			o.writeBy = by
			o.mu.Unlock()
			o.put([]byte(frame), false)
		}
		put("a", by)
		synctest.Wait() // it is being sent
		for _, frame := range []string{"b", "c", "d"} {
			put(frame, by.Add(time.Second))
		}
		o.turns(nil, nil)
		put("e", by)
		o.turns(nil)
		if o.wantSent(t, "a|bcd|e", 2); !o.conn.by.Equal(by) || len(o.told) > 0 {
			t.Errorf("the deadline is %v, and %v is told; want %v and nothing", o.conn.by, o.told, by)
		}
	})
}

func TestOutboxMakesAWriterWaitWhenItIsFull(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		put := make(chan int, 10)
		o.put(make([]byte, 1), false)
		synctest.Wait() // it is being sent
		go func() {
			for i := range 4 {
				o.put(make([]byte, outboxFull), false)
				put <- i
			}
		}()
		synctest.Wait()
		if n := len(put); n != 2 { // one fills the outbox, and one more exceeds it
			t.Errorf("%d puts did not wait, want 2", n)
		}
		o.turns(nil)
		equal(t, len(put), 4, "frames that were put when there was room again")
		o.turns(os.ErrDeadlineExceeded)
	})
}

func TestOutboxThatBreaksTellsOnceAndKeepsNothing(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		o.put([]byte("a"), false)
		synctest.Wait()
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			for range 4 {
				o.put(make([]byte, outboxFull), false)
			}
		}()
		synctest.Wait()
		o.turns(net.ErrClosed)
		<-waits // once the connection has ended, no writer waits
		o.put([]byte("b"), false)
		synctest.Wait()
		expect(t, len(o.told) == 1 && errors.Is(o.told[0], net.ErrClosed) && len(o.conn.writes) == 0,
			"told %v after %d writes, want the one error and no write", o.told, len(o.conn.writes))
	})
}

// TestOutboxAloneSpawnsNothing: the bytes are sent when put returns.
func TestOutboxAloneSpawnsNothing(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		o.conn.turn <- nil
		o.put([]byte("a"), true)
		o.wantSent(t, "a", 0)
		o.put([]byte("b"), false)
		synctest.Wait()          // b is being sent,
		o.put([]byte("c"), true) // so c is not alone after all
		o.turns(nil, nil)
		o.wantSent(t, "a|b|c", 1)
	})
}
