package actors

import "sync"

// Crew runs functions side by side, in goroutines of a group. While any of them runs, a goroutine that is done waits for the next function: a new
// goroutine would have to grow its stack for each. When none runs no goroutine is left.
type Crew struct {
	group *Group

	mu   sync.Mutex
	busy int
	idle []chan func() // of size 1: where the goroutines wait that are done; nil ends one
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
	if !began { // and others may have counted on it: 1. it is counted; 2. the last of those that ran waits; 3. the group is closed
		c.done(nil)
	}
	return began
}

// work runs f, and then what comes.
func (c *Crew) work(f func()) {
	next := make(chan func(), 1)
	for f != nil {
		f()
		c.done(next)
		f = <-next
	}
}

// done notes the end of a function. Its goroutine, if there is one, waits for another; if that was the last one, all of them end.
func (c *Crew) done(next chan func()) {
	c.mu.Lock()
	if next != nil {
		c.idle = append(c.idle, next)
	}
	c.busy--
	var idle []chan func()
	if c.busy == 0 {
		idle, c.idle = c.idle, nil
	}
	c.mu.Unlock()
	for _, next := range idle {
		next <- nil
	}
}
