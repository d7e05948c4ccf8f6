package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Host grants its guest the lock, and takes it back. None of the methods blocks. Except
// for Deadline, the caller holds no mutex.
type Host interface {
	// Ask is called once, when the guest starts. try means that it does not wait.
	Ask(try bool)
	// Leave is called when the guest is released, gives up or fails, before or after Ask,
	// possibly more than once.
	Leave(why recipes.Why)
	// Admit returns a lock that enters this one again, or nil; see [Lock.Admit].
	Admit(cfg Config) *Lock
	// Deadline returns until when the session of the epoch counts as alive. It is called
	// while the guest holds, with a mutex of the guest held.
	Deadline(epoch recipes.Epoch) time.Time
	// Use returns the port of the node, see [Lock.Use].
	Use() (port Port, done func(spent bool))
}

// Guest is a lock without a machine. Its [Host] grants it the node of another lock.
type Guest struct {
	Lock

	host Host
}

// Init initializes the guest. After that, the methods of its Lock may be called.
func (g *Guest) Init(cfg Config, host Host) {
	g.host = host
	g.init(cfg, g)
}

// Grant grants the lock. If the Grant is to be logged, it returns a function that does
// so.
func (g *Guest) Grant(e recipes.Grant, epoch recipes.Epoch) (log func()) {
	if grant, logs := g.onGrant(e, epoch); logs {
		return func() { g.log(grant) }
	}
	return nil
}

// Lose takes the lock away. report publishes the loss. If several guests lose a lock at
// once, all of them lose it before the first loss is published.
func (g *Guest) Lose(e recipes.Lose) (report func()) { return g.forfeits(e) }

// AskBack reports a revocation request.
func (g *Guest) AskBack(e recipes.Revoke) { g.revoke(e) }

// Queue reports how many contenders are ahead.
func (g *Guest) Queue(ahead int) {
	g.stands(ahead)
	g.queues(recipes.Queue{Ahead: ahead})
}

// Requeue reports that the place in the queue is lost.
func (g *Guest) Requeue() { g.requeues() }

// Displace notes that the number of contenders ahead is no longer known.
func (g *Guest) Displace() { g.noteRequeue() }

// End reports that the acquisition is over, before another one is granted the lock.
// Vacate follows.
func (g *Guest) End(why recipes.Why) {
	if !g.hasFailed() { // else Fail reports it
		g.finish(recipes.Finish{Why: why}, 0, false, nil)
	}
}

// Refuse is End for a guest whose request a server refused.
func (g *Guest) Refuse(err error) { g.finish(recipes.Finish{}, 0, false, err) }

// Vacate reports that nothing of the acquisition is left.
func (g *Guest) Vacate() {
	if !g.hasFailed() {
		g.nothingIsLeft()
	}
}

// hand returns true: the host handles the message at once, without the loop.
func (g *Guest) hand(m message) bool {
	if m.bound != 0 {
		if g.boundReached(&m) {
			g.host.Leave(m.bound)
		}
		return true
	}
	switch in := m.input.(type) {
	case recipes.Started:
		if m.open { // else the bound ends it
			g.host.Ask(in.Try)
		}
	case recipes.Withdrawn:
		g.host.Leave(in.Why)
		if in.Ran {
			g.hasReturned()
		}
	}
	return true
}

func (g *Guest) deadline(epoch recipes.Epoch) time.Time { return g.host.Deadline(epoch) }

func (g *Guest) use() (port Port, done func(spent bool)) { return g.host.Use() }

func (g *Guest) admit(cfg Config) *Lock { return g.host.Admit(cfg) }

func (g *Guest) drop() { g.host.Leave(recipes.WhyReleased) }
