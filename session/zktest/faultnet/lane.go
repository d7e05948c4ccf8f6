package faultnet

import (
	"os"
	"sync"
	"time"
)

// room is how many bytes may be in transit in one direction before the sender must wait,
// about as many as two sockets hold.
const room = 1 << 20

// piece is a frame in transit, or the end of the connection.
type piece struct {
	bytes []byte
	due   time.Time // when it may be delivered
	held  bool      // it waits until the network is healed
	end   error     // ends the connection after the bytes, with this error
}

// lane is one direction of one connection. It waits only on a condition variable, which
// inside a synctest bubble counts as durably blocked.
type lane struct {
	mu      sync.Mutex
	changed sync.Cond

	queue     []piece
	size      int
	last      time.Time // when the newest piece is due: keeps the order when the lag is reduced
	lag       time.Duration
	silent    bool
	swallowed bool
	ended     bool  // the last piece ends the connection
	over      error // the error with which waiting sides return
	deadlines [2]deadline
}

// The two sides that may wait at a lane.
const (
	sender = iota
	receiver
)

// deadline limits how long a side waits, with the timer that wakes it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func newLane(silent bool, lag time.Duration) *lane {
	l := &lane{silent: silent, lag: lag}
	l.changed.L = &l.mu
	return l
}

// change changes the lane, and wakes both sides to look again.
func (l *lane) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

// release lets everything in transit be delivered now.
func (l *lane) release() {
	l.change(func() {
		l.last = time.Time{}
		for i := range l.queue {
			l.queue[i].held, l.queue[i].due = false, time.Time{}
		}
	})
}

// close makes the lane unusable. The reason of the first call counts. It returns the
// bytes that were not delivered.
func (l *lane) close(reason error) (left []byte) {
	l.change(func() {
		if l.over == nil {
			l.over = reason
		}
		for _, p := range l.queue {
			left = append(left, p.bytes...)
		}
		l.queue, l.size = nil, 0
		for i := range l.deadlines {
			if t := l.deadlines[i].timer; t != nil {
				t.Stop()
			}
		}
	})
	return left
}

func (l *lane) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// put applies the rule's verdict to the frame. It returns false if nothing will be
// delivered after it.
func (l *lane) put(frame []byte, v Verdict) bool {
	goesOn := true
	l.change(func() {
		if l.over != nil || l.ended || l.swallowed {
			goesOn = l.over == nil && !l.ended
			return
		}
		p := piece{bytes: frame, due: time.Now().Add(l.lag)}
		switch v.kind {
		case pass:
		case drop:
			return
		case swallow:
			l.swallowed = true
			return
		case hold:
			p.held = true
		case holdFor:
			p.due = p.due.Add(v.delay)
		case cutBefore:
			p.bytes, p.end = nil, errCut
		case cutAfter:
			p.end = errCut
		}
		goesOn = p.end == nil
		l.enqueue(p)
	})
	return goesOn
}

// end is like put, for the end of the connection.
func (l *lane) end(reason error) {
	l.change(func() {
		if l.over == nil && !l.ended && !l.swallowed {
			l.enqueue(piece{due: time.Now().Add(l.lag), end: reason})
		}
	})
}

// enqueue is called with mu held.
func (l *lane) enqueue(p piece) {
	if p.due.Before(l.last) {
		p.due = l.last
	}
	l.last, l.ended = p.due, p.end != nil
	l.queue = append(l.queue, p)
	l.size += len(p.bytes)
}

// wait waits for a change, the given time or the side's deadline, whichever comes first.
// It is called with mu held.
func (l *lane) wait(who int, until time.Time) {
	d := &l.deadlines[who]
	if !d.at.IsZero() && (until.IsZero() || d.at.Before(until)) {
		until = d.at
	}
	if !until.IsZero() {
		// If a timer fires too early for a deadline on the wall clock, it is set again,
		// because the woken side looks at the time.
		left := max(time.Until(until), time.Microsecond)
		if d.timer == nil {
			d.timer = time.AfterFunc(left, func() { l.change(func() {}) })
		} else {
			d.timer.Reset(left)
		}
	}
	l.changed.Wait()
}

// passed reports whether the side's deadline has passed. It is called with mu held.
func (l *lane) passed(who int) bool {
	at := l.deadlines[who].at
	return !at.IsZero() && !time.Now().Before(at)
}

// setDeadline also applies to a side that is already waiting.
func (l *lane) setDeadline(who int, at time.Time) {
	l.change(func() { l.deadlines[who].at = at })
}

// ready waits until there is room to put more.
func (l *lane) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.over != nil:
			return l.over
		case l.passed(sender):
			return os.ErrDeadlineExceeded
		case l.size < room:
			return nil
		}
		l.wait(sender, time.Time{})
	}
}

// take waits for the next bytes to deliver. It returns an error if there is nothing more,
// or the deadline has passed. If end is not nil, the connection ends after the bytes.
func (l *lane) take() (bytes []byte, end, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		var until time.Time
		switch {
		case l.over != nil:
			return nil, nil, l.over
		case l.passed(receiver):
			return nil, nil, os.ErrDeadlineExceeded
		case l.silent || len(l.queue) == 0 || l.queue[0].held:
		case time.Now().Before(l.queue[0].due):
			until = l.queue[0].due
		default:
			p := l.queue[0]
			l.queue[0] = piece{}
			l.queue = l.queue[1:]
			l.size -= len(p.bytes)
			l.changed.Broadcast()
			return p.bytes, p.end, nil
		}
		l.wait(receiver, until)
	}
}
