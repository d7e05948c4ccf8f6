package actors

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Group owns the goroutines of a set of actors. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when running drops to 0; made by Close
}

// Go runs f in a goroutine of the group. It reports false, and runs nothing, if
// the group is closed.
func (g *Group) Go(f func()) bool {
	if !g.join() {
		return false
	}
	go func() {
		defer g.exit()
		f()
	}()
	return true
}

// join counts a goroutine among the group's until exit: the one that calls it, or one that it is about to start.
func (g *Group) join() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *Group) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Close refuses new goroutines and returns when the last one has ended. It must
// not be called from a goroutine of the group. Closing twice is harmless.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	if g.running == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}

// Actor handles messages of type M one at a time, in the order of posting.
type Actor[M any] struct {
	group *Group
	does  handler[M]

	mu       sync.Mutex
	queue    []M
	draining bool
}

// NewActor returns an idle actor whose goroutines belong to the group. The function is never run by two goroutines at once, and sees
// what earlier runs of it wrote. The actor calls run, which may be nil, when it has handled messages and finds no more, and behind
// every second batch if there are always more. That is for work that is better done once for several messages.
func NewActor[M any](group *Group, handle func(M), run func()) *Actor[M] {
	does := &work[M]{do: handle}
	if run != nil {
		does.rest = &rest[M]{run: run}
	}
	return &Actor[M]{group: group, does: does}
}

// handler is what an actor does with its messages. resting returns nil for most actors; only the drain calls it.
type handler[M any] interface {
	handle(m M)
	resting() *rest[M]
}

type work[M any] struct {
	do   func(M)
	rest *rest[M]
}

func (w *work[M]) handle(m M)        { w.do(m) }
func (w *work[M]) resting() *rest[M] { return w.rest }

// rest is what an actor does between batches.
type rest[M any] struct {
	run     func()
	batches int // since the last rest
	room    []M // for the next batch
}

// takesRoom returns the room that was kept for a batch, which then belongs to the caller.
func (r *rest[M]) takesRoom() (room []M) {
	if r != nil {
		room, r.room = r.room, nil
	}
	return room
}

// keepsRoom keeps the batch's room for the next batch, and returns the room for messages posted until then. An idle actor keeps
// little of the memory of a busy hour. An actor that does not rest keeps none, because there are many of those.
func (r *rest[M]) keepsRoom(queue, batch []M) []M {
	if r == nil || cap(queue) > mostRoom || cap(batch) > mostRoom {
		batch, queue = nil, nil
	}
	if r != nil {
		r.room = batch[:0]
	}
	return queue
}

// handled notes a batch of so many messages, and rests if it is time.
func (r *rest[M]) handled(messages int) {
	if r == nil {
		return
	}
	r.batches++
	if messages == 0 || r.batches >= mostBatches {
		r.run()
		r.batches = 0
	}
}

// due tells whether a message was handled since the last rest.
func (r *rest[M]) due() bool { return r != nil && r.batches > 0 }

// Post appends a message and returns at once. Any goroutine may call it, also one of the actor's own. If it reports true, the
// message will be handled. It reports false if the group is closed and the actor has nothing left to do; then the message is never
// handled.
func (a *Actor[M]) Post(m M) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining {
		if !a.group.join() {
			return false
		}
		a.draining = true
		go a.work()
	}
	a.queue = append(a.queue, m)
	return true
}

// work drains in a goroutine of its own, which has joined the group.
func (a *Actor[M]) work() {
	defer a.group.exit()
	a.drain(endless)
}

// Hand is Post, except that the caller's goroutine handles the message and its consequences if the actor is idle. That spares
// waking another goroutine. It also keeps order: messages that a caller hands to several idle actors are handled in the order of
// the calls. If there is always more to do, the caller returns and a goroutine goes on. The caller must not hold a mutex that the
// actor takes.
func (a *Actor[M]) Hand(m M) bool {
	a.mu.Lock()
	if a.draining {
		a.queue = append(a.queue, m)
		a.mu.Unlock()
		return true
	}
	if !a.group.join() {
		a.mu.Unlock()
		return false
	}
	a.draining = true
	a.mu.Unlock()
	handled := false
	defer func() {
		if !handled {
			broken(recover())
		}
		a.group.exit()
	}()
	a.does.handle(m)
	a.does.resting().handled(1)
	if more := a.drain(mostByHand); more && !a.group.Go(func() { a.drain(endless) }) {
		a.drain(endless)
	}
	handled = true
	return true
}

// broken ends the program, as a panic in a goroutine of the group does. cause is what the handler panicked with, or nil if it made
// its goroutine exit. The caller of Hand must not recover from that: the actor would be busy for ever, and no caller would hear of
// a loss.
func broken(cause any) {
	stack := debug.Stack()
	go panic(fmt.Sprintf("zkgrant: an actor's handler has not returned: %v\n\n%s", cause, stack))
	select {}
}

const (
	// mostBatches is how many batches are handled before a rest.
	mostBatches = 2
	// mostRoom is the capacity, in messages, of each of the two rooms that an idle actor keeps at the most.
	mostRoom = 64
	// mostByHand is how many batches a caller of Hand handles at the most.
	mostByHand = 4
	// endless is without a limit.
	endless = -1
)

// drain handles batches until the mailbox is empty, or at most so many, and reports whether there may be more. A message posted
// while the drain is about to leave is not stranded:
//
//  1. The drain finds the queue empty, with mu held.
//  2. It clears draining before it unlocks mu, and touches nothing behind that.
//  3. The next Post sees that and starts a new drain, which is alone.
func (a *Actor[M]) drain(most int) (more bool) {
	batch := a.does.resting().takesRoom()
	for ; most != 0; most-- {
		a.mu.Lock()
		if len(a.queue) == 0 && !a.does.resting().due() {
			a.queue = a.does.resting().keepsRoom(a.queue, batch)
			a.draining = false
			a.mu.Unlock()
			return false
		}
		batch, a.queue = a.queue, batch[:0]
		a.mu.Unlock()
		for i, m := range batch {
			a.does.handle(m)
			var handled M
			batch[i] = handled
		}
		a.does.resting().handled(len(batch))
	}
	return true
}
