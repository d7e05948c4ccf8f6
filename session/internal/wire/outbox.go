package wire

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// outboxFull is the number of waiting bytes from which on a write has to wait for the
	// connection, as it would without an outbox.
	outboxFull = 1 << 20
	// outboxKept is the largest buffer that is kept for the next bytes.
	outboxKept = 64 << 10
)

// outbox sends what the client writes. The client makes a call for each frame, and every call
// would be a system call. Here the bytes that come in while one is under way go out with the
// next. The first bytes go at once and wait for no others.
//
// There is a goroutine only while something is being sent. If the caller knows that no other
// bytes are expected there is none: then the caller sends the bytes itself.
type outbox struct {
	conn   net.Conn
	start  func(func()) bool // runs it in a goroutine, or reports that it does not
	failed func(error)       // told once, by the goroutine that was sending, why the connection cannot send

	mu      sync.Mutex
	room    *sync.Cond // there is room again, or never will be
	waiting []byte
	spare   []byte
	by      time.Time // until when the latest of them is to be sent; zero: no matter when
	sending bool
	broken  bool
}

func newOutbox(conn net.Conn, start func(func()) bool, failed func(error)) *outbox {
	o := &outbox{conn: conn, start: start, failed: failed}
	o.room = sync.NewCond(&o.mu)
	return o
}

// put takes the bytes, in order. Bytes that are put into a broken outbox are gone. With alone
// they are sent when it returns, unless others are being sent already.
func (o *outbox) put(p []byte, by time.Time, alone bool) {
	o.mu.Lock()
	for len(o.waiting) > outboxFull && !o.broken {
		o.room.Wait()
	}
	if o.broken {
		o.mu.Unlock()
		return
	}
	o.waiting, o.by = append(o.waiting, p...), by
	begin := !o.sending
	o.sending = true
	o.mu.Unlock()
	if begin && (alone || !o.start(o.gather)) {
		o.send()
	}
}

// gather lets other goroutines run that may have something to send, and then sends. Without that
// each frame would go out by itself: the goroutine that writes it stops to wait for the next,
// and this goroutine is the first to run then.
func (o *outbox) gather() {
	runtime.Gosched()
	o.send()
}

// send sends until nothing waits.
func (o *outbox) send() {
	o.mu.Lock()
	for len(o.waiting) > 0 {
		batch, by := o.waiting, o.by
		o.waiting, o.spare = o.spare, nil
		o.mu.Unlock()

		err := o.conn.SetWriteDeadline(by)
		if err == nil {
			_, err = o.conn.Write(batch)
		}

		o.mu.Lock()
		if err != nil {
			o.waiting, o.broken, o.sending = nil, true, false
			o.room.Broadcast()
			o.mu.Unlock()
			o.failed(err)
			return
		}
		if cap(batch) <= outboxKept {
			o.spare = batch[:0]
		}
		o.room.Broadcast()
	}
	o.sending = false
	o.mu.Unlock()
}
