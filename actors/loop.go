package actors

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Loop calls functions one at a time, in the order in which they were posted. It is the
// one mailbox of a session and of all its locks: state that only the loop touches needs
// no mutex. A goroutine runs while there is work, and an idle loop costs none.
type Loop struct {
	group *Group
	rest  func()

	mu       sync.Mutex
	queue    []func()
	draining bool

	// Only the drain touches these.
	yields  bool     // a caller of Hand is to return
	batches int      // since the last rest
	spare   []func() // room for the next batch
}

// NewLoop returns an idle loop whose goroutines belong to the group. It calls rest, which
// may be nil, when it runs out of work, and after every fourth batch if it does not. rest
// is for work that is better done once for several functions. A function sees what
// earlier ones wrote.
func NewLoop(group *Group, rest func()) *Loop { return &Loop{group: group, rest: rest} }

const (
	// mostBatches is how many batches are handled before a rest.
	mostBatches = 4
	// mostRoom is the capacity, in functions, of each of the two rooms that an idle loop
	// keeps at the most, and of the locks in an entry of waits.
	mostRoom = 64
	// mostByHand is the most batches that a caller of Hand handles.
	mostByHand = 8
	// endless is without a limit.
	endless = -1
)

// Post queues f for the loop, and returns at once. Any goroutine may call it, the loop's
// own included. It returns true if f will be called. It returns false if the group is
// closed and the loop has nothing left to do; then f never is.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.draining {
		if !l.group.Go(func() { l.drain(endless) }) { // it waits for mu
			return false
		}
		l.draining = true
	}
	l.queue = append(l.queue, f)
	return true
}

// Hand is [Loop.Post], except that, if the loop is idle, the caller's goroutine calls f
// and does the work that follows from it. That saves waking another goroutine. If the
// work does not end, the caller returns and a goroutine takes over. The caller must not
// hold a mutex that a function of the loop takes.
func (l *Loop) Hand(f func()) bool {
	l.mu.Lock()
	// Another goroutine drains: it calls f in its turn, and the order is kept.
	if l.draining {
		l.queue = append(l.queue, f)
		l.mu.Unlock()
		return true
	}
	if !l.group.join() {
		l.mu.Unlock()
		return false
	}
	l.draining = true
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	returned := false
	defer func() {
		if !returned {
			broken(recover())
		}
		l.group.running.Done()
	}()
	// A busy loop must not keep the caller. If the group is closed, no goroutine can take
	// over, and the caller finishes the work itself.
	if more := l.drain(mostByHand); more && !l.group.Go(func() { l.drain(endless) }) {
		l.drain(endless)
	}
	returned = true
	return true
}

// Yield makes a caller of [Loop.Hand] return, and a goroutine continue with the remaining
// work, the call of rest included. So the caller may post something that belongs to the
// same batch. A function of the loop calls it.
func (l *Loop) Yield() { l.yields = true }

// broken ends the program, as a panic in a goroutine of the group does. cause is what a
// function panicked with, or nil if it made its goroutine exit. The caller of Hand must
// not recover from that: the loop would be busy forever, and no caller would learn of a
// loss.
func broken(cause any) {
	stack := debug.Stack()
	go panic(fmt.Sprintf("zkgrant: a function of the loop has not returned: %v\n\n%s", cause, stack))
	select {}
}

// drain handles batches until nothing is left, or at most so many, and reports whether
// there may be more. A function that is posted while the drain is about to leave is not
// stranded:
//
//  1. The drain finds the queue empty, with mu held.
//  2. It clears draining before it unlocks mu, and touches nothing after that.
//  3. The next Post sees that and starts a new drain, which is alone.
func (l *Loop) drain(most int) (more bool) {
	l.yields = false
	lent := most != endless // by a caller of Hand
	for ; most != 0; most-- {
		l.mu.Lock()
		if len(l.queue) == 0 && (l.batches == 0 || l.rest == nil) {
			if cap(l.queue) > mostRoom { // an idle loop keeps little of the memory of a busy hour
				l.queue = nil
			}
			l.draining = false
			l.mu.Unlock()
			return false
		}
		// Two slices take turns, so that posting during a batch needs no new memory. They
		// must not share room: a posted function would overwrite one that is still to be
		// called.
		batch := l.queue
		l.queue, l.spare = l.spare, nil
		l.mu.Unlock()

		for i, f := range batch {
			f()
			batch[i] = nil // what it refers to may be large
		}
		if cap(batch) <= mostRoom {
			l.spare = batch[:0]
		}
		if lent && l.yields {
			l.batches++ // a rest is due
			return true
		}
		if l.rest == nil {
			continue
		}
		l.batches++
		if len(batch) == 0 || l.batches >= mostBatches { // there was nothing else to do, or for long no rest
			l.rest()
			l.batches = 0
		}
	}
	return true
}

// Group owns the goroutines of a loop and its locks. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex // held when running grows, so that none is added after Close
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a goroutine of the group. If the group is closed, it runs nothing and
// returns false.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// join counts the goroutine that calls it among the group's, until running.Done.
func (g *Group) join() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Add(1)
	return true
}

// Close refuses new goroutines and returns when the last one has ended. A goroutine of
// the group must not call it. Closing twice is harmless.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
