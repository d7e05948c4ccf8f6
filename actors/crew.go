package actors

import "sync"

// mostIdle is how many goroutines of a crew wait for the next function at the most.
const mostIdle = 64

// Crew runs functions side by side, in goroutines of a group. A goroutine whose function is done may wait for the next one, because
// a new goroutine would have to grow its stack. When no function runs, no goroutine is left.
type Crew struct {
	group *Group

	mu   sync.Mutex
	busy int
	idle []chan func() // of size 1: one for each goroutine that waits; a nil function ends it
}

// NewCrew returns a crew without a goroutine.
func NewCrew(group *Group) *Crew { return &Crew{group: group} }

// Go runs f. It reports false, and runs nothing, if the group is closed and no goroutine waits.
func (c *Crew) Go(f func()) bool {
	c.mu.Lock()
	c.busy++
	var next chan func()
	if last := len(c.idle) - 1; last >= 0 {
		next, c.idle = c.idle[last], c.idle[:last]
	}
	c.mu.Unlock()
	if next != nil {
		next <- f
		return true
	}
	began := c.group.Go(func() { c.work(f) })
	if !began {
		// f was counted, so a goroutine may wait that would have ended: 1. f is counted; 2. the last running function is done, and its
		// goroutine waits; 3. the group is closed.
		c.done(nil)
	}
	return began
}

// work runs f, and then the functions that come.
func (c *Crew) work(f func()) {
	next := make(chan func(), 1)
	for f != nil {
		f()
		if !c.done(next) {
			return
		}
		f = <-next
	}
}

// done notes the end of a function, and reports whether its goroutine waits for another one. next is nil if there is no goroutine.
// When no function runs any more, all waiting goroutines end.
func (c *Crew) done(next chan func()) (waits bool) {
	var idle []chan func()
	c.mu.Lock()
	c.busy--
	switch {
	case c.busy == 0:
		idle, c.idle = c.idle, nil
	case next != nil && len(c.idle) < mostIdle:
		c.idle, waits = append(c.idle, next), true
	}
	c.mu.Unlock()
	for _, next := range idle {
		next <- nil
	}
	return waits
}
