package actors

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Loop calls functions one at a time, in the order they were posted. It is the single
// mailbox of a session and all its locks: state that only the loop touches needs no
// mutex. Its goroutine runs only while there is work, so an idle loop costs none.
type Loop struct {
	group *Group
	rest  func()

	mu       sync.Mutex
	queue    []func()
	draining bool

	// Only the drain touches these.
	yields  bool     // the caller of Hand should return
	batches int      // since the last call of rest
	spare   []func() // room for the next batch
}

// NewLoop returns an idle loop whose goroutines belong to the group. The loop calls rest,
// unless that is nil, when it runs out of work, or after four batches if it does not. Use
// rest for work that is better done once for several functions. A function sees all
// writes of earlier ones.
func NewLoop(group *Group, rest func()) *Loop { return &Loop{group: group, rest: rest} }

const (
	// mostBatches is the number of batches after which rest is called even though there
	// is more work.
	mostBatches = 4
	// mostRoom is the largest slice capacity that is kept while idle: for each of a
	// loop's two slices of functions, and for the locks in an entry of waits.
	mostRoom = 64
	// mostByHand is the maximum number of batches that a caller of Hand handles.
	mostByHand = 8
	// endless means no limit.
	endless = -1
)

// Post queues f for the loop and returns at once. Any goroutine may call it, including
// the loop's own. Post reports whether f will be called: it returns false if the group is
// closed and the loop has nothing left to do.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.draining {
		if !l.group.Go(func() { l.drain(endless) }) { // the goroutine first waits for mu
			return false
		}
		l.draining = true
	}
	l.queue = append(l.queue, f)
	return true
}

// Hand is like [Loop.Post], but if the loop is idle, the caller's own goroutine calls f
// and does the work that follows. That saves waking another goroutine. If there is a lot
// of work, the caller returns and a goroutine takes over. The caller must not hold a
// mutex that a function of the loop takes.
func (l *Loop) Hand(f func()) bool {
	l.mu.Lock()
	// Another goroutine is draining. It calls f in turn, which keeps the order.
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
	// A busy loop must not detain the caller. If the group is closed, no goroutine can
	// take over, so the caller finishes the work itself.
	if more := l.drain(mostByHand); more && !l.group.Go(func() { l.drain(endless) }) {
		l.drain(endless)
	}
	returned = true
	return true
}

// Yield makes a caller of [Loop.Hand] return; a goroutine does the remaining work,
// including the call of rest. So the caller can still post something to the same batch.
// Only a function of the loop may call Yield.
func (l *Loop) Yield() { l.yields = true }

// broken crashes the program, as a panic in a goroutine of the group would. cause is the
// value of the panic, or nil if the function called runtime.Goexit. If the caller of Hand
// could recover from it, the loop would stay busy forever, and no caller would learn of a
// loss.
func broken(cause any) {
	stack := debug.Stack()
	go panic(fmt.Sprintf("zkgrant: a function of the loop has not returned: %v\n\n%s", cause, stack))
	select {}
}

// drain handles up to most batches, and reports whether there may be more. A function
// that is posted while drain is about to return is not stranded:
//
//  1. drain finds the queue empty, with mu held.
//  2. It clears draining before it unlocks mu, and then touches nothing.
//  3. The next Post sees that and starts a new drain, which runs alone.
func (l *Loop) drain(most int) (more bool) {
	l.yields = false
	lent := most != endless // by a caller of Hand
	for ; most != 0; most-- {
		l.mu.Lock()
		if len(l.queue) == 0 && (l.batches == 0 || l.rest == nil) {
			if cap(l.queue) > mostRoom { // free what a busy hour needed
				l.queue = nil
			}
			l.draining = false
			l.mu.Unlock()
			return false
		}
		// Two slices take turns, so that posting during a batch does not allocate. They
		// must not share an array: a posted function would overwrite one that was not
		// called yet.
		batch := l.queue
		l.queue, l.spare = l.spare, nil
		l.mu.Unlock()

		for i, f := range batch {
			f()
			batch[i] = nil // it may keep a lot of memory alive
		}
		if cap(batch) <= mostRoom {
			l.spare = batch[:0]
		}
		if lent && l.yields {
			l.batches++ // a call of rest is due
			return true
		}
		if l.rest == nil {
			continue
		}
		l.batches++
		if len(batch) == 0 || l.batches >= mostBatches { // out of work, or busy for long
			l.rest()
			l.batches = 0
		}
	}
	return true
}

// Group owns the goroutines of a loop and its locks. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex // held while running grows, so that nothing is added after Close
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a goroutine of the group. It returns false, without calling f, if the
// group is closed.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// join counts the calling goroutine as one of the group's, until running.Done.
func (g *Group) join() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Add(1)
	return true
}

// Close refuses new goroutines and returns once the last one has exited. A goroutine of
// the group must not call it. Closing twice is harmless.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
