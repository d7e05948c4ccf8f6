package schedules

import (
	"context"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// What the runners of a loop hold.

// handle makes the handle for the runner's lock.
func (r runner) handle(c *coordinator.Coordinator, s side) handle {
	switch path := loopDir + "/" + r.lock; {
	case r.permits > 0:
		return bulk{c.Semaphore(path, size), r.permits}
	case s == alone:
		return toWrite(c, path)
	case s == shared:
		return toRead(c, path)
	default:
		return c.Mutex(path)
	}
}

// become asks to read in the writer's place, gives the write lock back, and holds what it has got for as long.
func (l *laps) become(r runner, lock handle, writer holding) *coordinator.Acquisition {
	read := lock.Acquire(writer.a.Context(context.Background()))
	if _, err := read.Wait(context.Background()); err != nil {
		if !l.takes(err) {
			l.Errorf("could not become a reader: %v", err)
		}
		return read
	}
	l.granted(r.lock, holding{read, shared, 0, writer.token})
	writer.a.Release()
	if r.hold > 0 {
		time.Sleep(r.hold)
	}
	return read
}

// holding is who was granted a lock.
type holding struct {
	a       *coordinator.Acquisition
	side    side
	permits int
	token   int64 // or, of a reader in a writer's place, that writer's
}

// granted checks that nobody else holds the lock who does not share it, and that a writer's token has grown.
func (l *laps) granted(lock string, h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder[lock] = slices.DeleteFunc(l.holder[lock], func(o holding) bool { return !o.a.Valid() })
	permits := h.permits
	for _, o := range l.holder[lock] {
		if o.a.Valid() {
			permits += o.permits
		}
		share := h.permits > 0 || o.side == shared && h.side == shared || o.token == h.token
		// Validity ends for good: who is valid before and after another was is so in between.
		if !share && h.a.Valid() && o.a.Valid() && !l.robbed {
			l.Errorf("two holders of %s", lock)
		}
	}
	l.holder[lock] = append(l.holder[lock], h)
	if permits > size && h.a.Valid() && !l.robbed {
		l.Errorf("%d permits of %s are held", permits, lock)
	}
	if h.side == shared || h.permits > 0 {
		return
	}
	if h.token <= l.token[lock] && !l.robbed { // robbed, two may hold for a moment, and either may come here first
		l.Errorf("token %#x after %#x of %s", h.token, l.token[lock], lock)
	}
	l.token[lock] = h.token
}
