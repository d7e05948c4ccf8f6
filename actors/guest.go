package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Host grants the lock to its guest and takes it back. Its methods do not block. All but
// Deadline are called with no mutex held.
type Host interface {
	// Ask requests the lock. It is called once, when the guest starts. try means that the
	// guest does not wait.
	Ask(try bool)
	// Leave is called when the guest is released, gives up or fails. It may come before
	// Ask, and more than once.
	Leave(why recipes.Why)
	// Admit returns a lock that re-enters this one, or nil; see [Lock.Admit].
	Admit(cfg Config) *Lock
	// Deadline returns the time until which the session of the epoch counts as alive. It
	// is called while the guest holds the lock, with the guest's mutex held.
	Deadline(epoch recipes.Epoch) time.Time
	// Use returns the port of the node; see [Lock.Use].
	Use() (port Port, done func(spent bool))
}

// Guest is a lock without a machine: its [Host] grants it the node of another lock.
type Guest struct {
	Lock

	host Host
}

// Init initializes the guest. The methods of its Lock must not be called before.
func (g *Guest) Init(cfg Config, host Host) {
	g.host = host
	g.init(cfg, g)
}

// Grant grants the lock. If the Grant is to be logged, Grant returns a function that logs
// it, else nil.
func (g *Guest) Grant(e recipes.Grant, epoch recipes.Epoch) (log func()) {
	if grant, logs := g.onGrant(e, epoch); logs {
		return func() { g.log(grant) }
	}
	return nil
}

// Lose takes the lock away, and report publishes the loss. When several guests lose a
// lock at once, call Lose for all of them before the first report.
func (g *Guest) Lose(e recipes.Lose) (report func()) { return g.forfeit(e) }

// Revoke passes a revocation request on to the caller.
func (g *Guest) Revoke(e recipes.Revoke) { g.revoke(e) }

// Queue reports how many contenders are ahead.
func (g *Guest) Queue(ahead int) {
	g.setAhead(ahead)
	g.onQueue(recipes.Queue{Ahead: ahead})
}

// Requeue reports that the place in the queue is lost.
func (g *Guest) Requeue() { g.onRequeue() }

// Displace notes that the number of contenders ahead is no longer known.
func (g *Guest) Displace() { g.noteRequeue() }

// End reports that the acquisition is over. It is called before another acquisition is
// granted the lock. Vacate follows.
func (g *Guest) End(why recipes.Why) {
	if !g.hasFailed() { // else Fail reports it
		g.finish(recipes.Finish{Why: why}, 0, false, nil)
	}
}

// Refuse is like End, for a guest whose request a server refused. If its wait has ended
// before, that is the result of Err.
func (g *Guest) Refuse(err error) {
	g.finish(recipes.Finish{Why: recipes.WhyReleased}, 0, false, err)
}

// Vacate reports that nothing of the acquisition is left at the server.
func (g *Guest) Vacate() {
	if !g.hasFailed() {
		g.onNodeGone()
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
		if m.open { // else the end of its context ends it
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
