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
	if !c.group.join() {
		// f was counted, so a goroutine may wait that would have ended: 1. f is counted; 2. the last running function is done, and its
		// goroutine waits; 3. the group is closed.
		c.mu.Lock()
		c.ended()
		c.mu.Unlock()
		return false
	}
	go c.work(f)
	return true
}

// work runs f, and then the functions that come.
func (c *Crew) work(f func()) {
	defer c.group.exit()
	var next chan func()
	for f != nil {
		f()
		if next = c.next(next); next == nil {
			return
		}
		f = <-next
	}
}

// next notes the end of a function. It returns where its goroutine waits for another one, or nil if the goroutine ends. The channel
// is that of the goroutine, or a new one if it has none yet: most goroutines never wait.
func (c *Crew) next(own chan func()) chan func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() || len(c.idle) == mostIdle {
		return nil
	}
	if own == nil {
		own = make(chan func(), 1)
	}
	c.idle = append(c.idle, own)
	return own
}

// ended counts a function that has ended, and reports whether none runs any more. All waiting goroutines end then. It is called with
// mu held, and a channel of a goroutine that waits has room.
func (c *Crew) ended() (none bool) {
	if c.busy--; c.busy > 0 {
		return false
	}
	for _, next := range c.idle {
		next <- nil
	}
	c.idle = nil
	return true
}
