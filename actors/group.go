package actors

import "sync"

// Group owns the goroutines of a loop and its locks. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when running drops to 0; made by Close
}

// Go runs f in a goroutine of the group. If the group is closed, it runs nothing and
// returns false.
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

// join counts a goroutine among the group's until exit: the one that calls it, or one
// that it is about to start.
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

// Close refuses new goroutines and returns when the last one has ended. A goroutine of
// the group must not call it. Closing twice is harmless.
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
