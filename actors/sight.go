package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is what a caller sees of a Lock.

// Granted delivers the Grant.
func (l *Lock) Granted() <-chan events.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granted == nil {
		l.granted = make(chan events.Grant, 1)
		if l.offered {
			l.offered = false
			l.offer()
		}
	}
	return l.granted
}

// feed returns what has the events of the lock in the place of its channels, or nil. It
// is called with mu held.
func (l *Lock) feed() *Feed {
	if l.rare == nil {
		return nil
	}
	return l.rare.feed
}

// offer makes the Grant available, before the caller has it. It is called with mu held.
func (l *Lock) offer() {
	if feed := l.feed(); feed != nil {
		l.rare.offered = feed.box.push(l.granting(), nil)
		return
	}
	if l.granted == nil {
		l.offered = true
		return
	}
	l.granted <- l.granting() // size 1, and there is one Grant
}

// retract takes the Grant back from the channel, and reports whether it was there. It is
// called with mu held.
func (l *Lock) retract() bool {
	if feed := l.feed(); feed != nil {
		return feed.box.retract(l.rare.offered)
	}
	if l.granted == nil {
		was := l.offered
		l.offered = false
		return was
	}
	select {
	case <-l.granted:
		return true
	default:
		return false
	}
}

// Lost delivers the loss of a Grant that was taken.
func (l *Lock) Lost() <-chan events.Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.losses()
}

// losses makes the channel if there is none yet, because most locks are never lost. It is
// called with mu held.
func (l *Lock) losses() chan events.Lost {
	if l.lost == nil {
		l.lost = make(chan events.Lost, 1)
	}
	return l.lost
}

// Done is closed when the acquisition is over.
func (l *Lock) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doneness()
}

// doneness returns a channel that is closed when the acquisition is over. It is called
// with mu held.
func (l *Lock) doneness() <-chan struct{} {
	if l.ended {
		return nothing
	}
	return asked(&l.done)
}

// closeDone publishes the end, and closes Done.
func (l *Lock) closeDone(ended events.Ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publishLoss()
	if l.cfg.Stream.Heard() {
		l.cfg.Stream.Publish(ended)
	}
	if feed := l.feed(); feed != nil {
		feed.end(l, ended)
	}
	l.ended = true
	tell(&l.done)
}

// Err returns why the acquisition is over, and nil before that.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		return nil
	}
	return l.err
}

// Valid reports whether the lock is held and its lease has not run out.
func (l *Lock) Valid() bool {
	deadline := l.Deadline() // first: if the process is halted in between, the clock is read after the halt
	return time.Now().Before(deadline)
}

// Deadline returns the earlier of two moments: until when the lock is safe without
// further contact, and when it must be released. It is the zero time if the lock is not
// held.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != holding {
		return time.Time{}
	}
	lease := l.drive.deadline(l.epoch)
	if l.rare != nil && !l.rare.due.IsZero() && l.rare.due.Before(lease) {
		return l.rare.due
	}
	return lease
}

// Use returns the port of the node while the lock is held, or nil. The node of a cached
// lock is not handed on before done is called. Call done with spent if the node's name
// may be used later: the node is then deleted when its holder releases.
func (l *Lock) Use() (port Port, done func(spent bool)) { return l.drive.use() }

// Tenure returns the Grant, its epoch, and whether the lock is still held, all at one
// moment. Before there is a Grant, it returns the zero Grant.
func (l *Lock) Tenure() (grant events.Grant, epoch recipes.Epoch, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant == (tenancy{}) {
		return events.Grant{}, 0, false
	}
	return l.granting(), l.epoch, l.state == holding
}

// Holding reports whether the lock is granted, and neither released nor lost.
func (l *Lock) Holding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == holding
}

// Waiting returns how long the caller has waited. ok is false after the wait.
func (l *Lock) Waiting() (waited time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age(), l.state == waiting && l.withdrawn == 0
}

// Ending returns why the lock is no longer held and will not be again: what the function
// of OnEnd receives. It is nil while the lock may be held, and after a Release.
func (l *Lock) Ending() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != over {
		return nil
	}
	return l.err
}

// OnEnd calls f once, as soon as the lock is no longer held and will not be again, or at
// once if that is so already. f receives what Err will return, or what Err would return
// if the Grant had been taken. f must not block. cancel unregisters f.
func (l *Lock) OnEnd(f func(error)) (cancel func()) {
	l.mu.Lock()
	if l.state == over {
		err := l.err
		l.mu.Unlock()
		f(err)
		return func() {}
	}
	asked := l.rarely()
	if asked.onEnd == nil {
		asked.onEnd = map[int]func(error){}
	}
	asked.lastOnEnd++
	id := asked.lastOnEnd
	asked.onEnd[id] = f
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(asked.onEnd, id)
	}
}

// Position returns how many contenders were ahead at the latest listing. ok is false if
// the lock is not waiting, or has not listed since it queued.
func (l *Lock) Position() (ahead int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != waiting || !l.placed {
		return 0, false
	}
	return int(l.ahead), true
}

// stands notes how many contenders are ahead, before the event that reports it.
func (l *Lock) stands(ahead int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed, l.ahead = true, int32(ahead)
}

// noteRequeue notes that the lock queues again.
func (l *Lock) noteRequeue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed = false
}
