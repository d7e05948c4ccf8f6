package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// FuzzSplitter compares the splitter, fed in pieces, with a reader that has everything at once.
func FuzzSplitter(f *testing.F) {
	f.Add(frameOf([]byte("0123456789abcdef")), []byte{3})
	f.Add(append(frameOf(nil), frameOf(make([]byte, 40))...), []byte{1, 5, 200})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{2})
	f.Fuzz(func(t *testing.T, stream, sizes []byte) {
		const lo, hi = 2, 500
		var want, got [][]byte // the heads of the frames
		bad := false
		for rest := stream; len(rest) >= 4; {
			n := int64(int32(binary.BigEndian.Uint32(rest)))
			if bad = n < lo || n > hi; bad || int64(len(rest)-4) < n {
				break
			}
			want = append(want, rest[4:4+min(n, headSize)])
			rest = rest[4+n:]
		}
		s := &splitter{min: lo, max: hi}
		var err error
		for i := 0; len(stream) > 0 && err == nil; i++ {
			size := 1
			if len(sizes) > 0 {
				size = max(1, int(sizes[i%len(sizes)]))
			}
			piece := stream[:min(size, len(stream))]
			stream = stream[len(piece):]
			for m := markEnded; m != markMore && err == nil; {
				var n int
				n, m, err = s.next(piece)
				if piece = piece[n:]; m == markEnded {
					got = append(got, bytes.Clone(s.head[:min(s.length, headSize)]))
				}
			}
			if len(piece) > 0 && err == nil {
				t.Fatalf("%d bytes are left over, want the splitter to take all", len(piece))
			}
		}
		if (err != nil) != bad || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("the frames begin with %x, %v; want %x, and an error: %v", got, err, want, bad)
		}
	})
}

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

// sending is an outbox that sends to a slowConn.
type sending struct {
	*outbox
	conn    *slowConn
	started int // goroutines
	told    []error
}

// withOutbox runs the test with an outbox in virtual time.
func withOutbox(t *testing.T, test func(t *testing.T, o *sending)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		o := &sending{conn: &slowConn{turn: make(chan error, 1)}}
		start := func(f func()) bool { o.started++; go f(); return true }
		o.outbox = newOutbox(o.conn, start, func(err error) { o.told = append(o.told, err) })
		test(t, o)
	})
}

// turns lets writes happen, one after the other.
func (o *sending) turns(ends ...error) {
	for _, err := range ends {
		o.conn.turn <- err
		synctest.Wait()
	}
}

// wantSent fails the test unless these writes were made, by so many goroutines.
func (o *sending) wantSent(t *testing.T, want string, started int) {
	t.Helper()
	if got := string(bytes.Join(o.conn.writes, []byte("|"))); got != want || o.started != started {
		t.Errorf("the writes are %s, by %d goroutines; want %s by %d", got, o.started, want, started)
	}
}

func TestOutboxSendsInOrderAndWithFewCalls(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		by := time.Now().Add(time.Second)
		o.put([]byte("a"), by, false)
		synctest.Wait() // it is being sent
		for _, p := range []string{"b", "c", "d"} {
			o.put([]byte(p), by.Add(time.Second), false)
		}
		o.turns(nil, nil)
		o.put([]byte("e"), by, false)
		o.turns(nil)
		if o.wantSent(t, "a|bcd|e", 2); !o.conn.by.Equal(by) || len(o.told) > 0 {
			t.Errorf("the deadline is %v, and %v is told; want %v and nothing", o.conn.by, o.told, by)
		}
	})
}

func TestOutboxMakesAWriterWaitWhenItIsFull(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
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
		o.turns(nil)
		if n := len(put); n != 4 {
			t.Errorf("%d were put when there was room again, want all 4", n)
		}
		o.turns(os.ErrDeadlineExceeded)
	})
}

func TestOutboxThatBreaksTellsOnceAndKeepsNothing(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
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
		o.turns(net.ErrClosed)
		<-waits // a connection that is gone makes no writer wait
		o.put([]byte("b"), time.Time{}, false)
		synctest.Wait()
		if len(o.told) != 1 || !errors.Is(o.told[0], net.ErrClosed) || len(o.conn.writes) != 0 {
			t.Errorf("told %v after %d writes, want the one error and no write", o.told, len(o.conn.writes))
		}
	})
}

// TestOutboxAloneSpawnsNothing: the bytes have gone when put returns.
func TestOutboxAloneSpawnsNothing(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *sending) {
		o.conn.turn <- nil
		o.put([]byte("a"), time.Time{}, true)
		o.wantSent(t, "a", 0)
		o.put([]byte("b"), time.Time{}, false)
		synctest.Wait()                       // b is being sent,
		o.put([]byte("c"), time.Time{}, true) // so c is not alone after all
		o.turns(nil, nil)
		o.wantSent(t, "a|b|c", 1)
	})
}
