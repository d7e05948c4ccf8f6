package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// frameOf puts the length in front of a body.
func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// splitAll feeds stream in pieces of the given sizes, over and over, and returns the heads in the order of the marks.
func splitAll(t *testing.T, s *splitter, stream []byte, sizes []byte) (headed, ended [][]byte, err error) {
	t.Helper()
	for i := 0; len(stream) > 0; i++ {
		size := 1
		if len(sizes) > 0 {
			size = max(1, int(sizes[i%len(sizes)]))
		}
		piece := stream[:min(size, len(stream))]
		stream = stream[len(piece):]
		for {
			n, m, err := s.next(piece)
			if err != nil {
				return headed, ended, err
			}
			piece = piece[n:]
			head := bytes.Clone(s.head[:min(s.length, headSize)])
			switch m {
			case markHeaded:
				headed = append(headed, head)
			case markEnded:
				ended = append(ended, head)
			case markMore:
				if len(piece) != 0 {
					t.Fatalf("%d bytes are left over, want the splitter to take all", len(piece))
				}
			default:
				t.Fatalf("the splitter says mark %d, want headed, ended or more", m)
			}
			if m == markMore {
				break
			}
		}
	}
	return headed, ended, nil
}

func TestSplitterHoldsTheBounds(t *testing.T) {
	for _, c := range []struct {
		length uint32
		ok     bool
	}{
		{15, false}, {16, true}, {64 << 20, true}, {64<<20 + 1, false}, {math.MaxInt32, false},
		{math.MaxInt32 + 1, false}, {math.MaxUint32, false}, {0, false},
	} {
		s := &splitter{min: minReply, max: maxFrame}
		_, _, err := s.next(binary.BigEndian.AppendUint32(nil, c.length))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errFrameLength) {
			t.Errorf("length %d: %v, want accepted %v", c.length, err, c.ok)
		}
	}
}

// FuzzSplitter compares the splitter, fed in pieces, with a reader that has everything at once.
func FuzzSplitter(f *testing.F) {
	f.Add(frameOf([]byte("0123456789abcdef")), []byte{3})
	f.Add(append(frameOf(nil), frameOf(make([]byte, 40))...), []byte{1, 5, 200})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{2})
	f.Fuzz(func(t *testing.T, stream, sizes []byte) {
		const lo, hi = 2, 500
		var want [][]byte
		bad := false
		rest := stream
		for len(rest) >= 4 {
			n := int64(int32(binary.BigEndian.Uint32(rest)))
			if n < lo || n > hi {
				bad = true
				break
			}
			if int64(len(rest)-4) < n {
				break
			}
			want = append(want, rest[4:4+min(n, headSize)])
			rest = rest[4+n:]
		}
		_, ended, err := splitAll(t, &splitter{min: lo, max: hi}, stream, sizes)
		if (err != nil) != bad {
			t.Fatalf("error %v, want one: %v", err, bad)
		}
		if len(ended) != len(want) {
			t.Fatalf("%d frames, want %d", len(ended), len(want))
		}
		for i := range want {
			if !bytes.Equal(ended[i], want[i]) {
				t.Fatalf("frame %d: %x, want %x", i, ended[i], want[i])
			}
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
		<-waits // a connection that is gone makes no writer wait
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
