package session

import (
	"path"
	"strings"

	"github.com/zkgrant/zkgrant/recipes"
)

// layout is how the nodes of one kind of lock stand at the server. What differs between the kinds in how
// a seat's requests are made, and in what the answers mean for the session, is a method of it: the rest
// of the package does not ask of what kind a seat is.
type layout interface {
	// These carry out what the machine asks for, in goroutines of their own, and return the answer. A list request gets what was found in
	// the directories of reads.
	create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error)
	list(c *client, t *Seat, e recipes.List, id string, found []*names) (recipes.Input, error)
	watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error)
	claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error)
	remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error)

	// reads returns the directories that are listed before a list request is made, each once.
	reads(t *Seat) []string
	// claimed returns the nodes that a claim checks, those of which the own one is the first, or nil if not all of them are known.
	claimed(t *Seat, own string) []string

	// at returns the path of a node that the machine knows by the name, and nameOf is the other way.
	at(t *Seat, name string) string
	nameOf(node string) string
	// blame marks an error with the member of a multi-lock whose node or directory it is about.
	blame(node string, err error) error
	// removable tells whether a node of a past epoch may be removed by its name.
	removable() bool

	// The seat's mu guards these. ownLeases returns the paths of the own ones, or of a multi-lock's nodes, if there are any, which nobody writes to;
	// anew begins another attempt, and leave ends all that the seat has at the client.
	ownLeases() []string
	anew()
	leave(c *client, t *Seat)

	// These are for the session's drain. firstHolds tells whether who is proven to be the first has the
	// lock by that; joins whether a delete and a create behind it may be one request.
	firstHolds() bool
	joins() bool
	// told notes what is known of the own node: that it is there, or may not be. lost says that it is
	// gone, and cover has it watched.
	told(there bool)
	lost(c *client, t *Seat)
	cover(s *Session, c *client, t *Seat, node string)
}

var _, _, _, _, _ layout = queued{}, placed{}, (*permits)(nil), (*single)(nil), (*multi)(nil)

// queued is a directory with a node for each contender, whose numbers say who is first. The others
// are this, but for what they say.
type queued struct{}

func (queued) create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	return c.create(t, epoch, id)
}

func (queued) list(c *client, t *Seat, e recipes.List, id string, found []*names) (recipes.Input, error) {
	return c.list(t, e, id, found[0])
}

func (queued) watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error) {
	return c.watch(t, e)
}

func (queued) claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error) {
	if e.Record != recipes.RecordNothing {
		return c.claimRecorded(t, e)
	}
	return c.claim(t, e)
}

func (queued) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	return c.remove(t, e)
}

func (queued) reads(t *Seat) []string { return []string{t.dir} }

func (queued) claimed(t *Seat, own string) []string { return t.nodes(own) }

func (queued) at(t *Seat, name string) string { return path.Join(t.dir, name) }

func (queued) nameOf(node string) string { return path.Base(node) }

func (queued) blame(_ string, err error) error { return err }

func (queued) removable() bool { return true }

func (queued) ownLeases() []string { return nil }

func (queued) anew() {}

func (queued) leave(*client, *Seat) {}

func (queued) firstHolds() bool { return true }

func (queued) joins() bool { return true }

func (queued) told(bool) {}

func (queued) lost(*client, *Seat) {}

func (queued) cover(s *Session, c *client, t *Seat, node string) {
	for _, node := range t.nodes(node) {
		if first := t.want(c, node); first {
			s.onRequest(&rearming{epoch: c.epoch, node: node})
		}
	}
	c.remind(t, t.name(node))
}

// placed is the queue of one who takes a writer's place; see downgrade.go.
type placed struct{ queued }

func (placed) create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	return c.createInPlace(t, epoch, id)
}

// What a semaphore has besides its queue; see semaphore.go.

func (p *permits) list(c *client, t *Seat, e recipes.List, id string, found []*names) (recipes.Input, error) {
	return c.listSemaphore(t, e, id, found[0])
}

func (p *permits) claimed(t *Seat, own string) []string {
	nodes := t.nodes(own)
	if t.incomplete(nodes) {
		return nil
	}
	return nodes
}

func (p *permits) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	if leases := t.nodes(t.at(e.Node)); len(leases) > 1 {
		return c.giveBack(t, e, leases)
	}
	return c.remove(t, e)
}

func (p *permits) at(t *Seat, name string) string {
	if strings.HasPrefix(name, leaseDir+"/") {
		return path.Join(p.root, name)
	}
	return path.Join(t.dir, name)
}

// nameOf says of a lease in which directory it is, for that of a contender in the queue does not.
func (p *permits) nameOf(node string) string {
	if path.Dir(node) == p.leases {
		return leaseDir + "/" + path.Base(node)
	}
	return path.Base(node)
}

func (p *permits) ownLeases() []string { return p.held }

func (p *permits) anew() { p.held = nil } // they were the last attempt's

func (p *permits) leave(c *client, t *Seat) {
	p.held = nil
	t.turnAway(c)
}

func (p *permits) firstHolds() bool { return false } // there may be no room

// What there is instead of a queue where the lock is one node; see single.go.

func (l *single) create(c *client, t *Seat, epoch recipes.Epoch, _ string) (recipes.Input, error) {
	in, err := c.createSingle(t, epoch)
	return c.heard(t, in, err)
}

func (l *single) list(c *client, t *Seat, e recipes.List, _ string, _ []*names) (recipes.Input, error) {
	in, err := c.look(t, e)
	return c.heard(t, in, err)
}

func (l *single) reads(*Seat) []string { return nil }

// watch has nothing to do if the watch is still armed that came with the look before.
func (l *single) watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error) {
	if c.watches.Subscribed(l.node, t) {
		return nil, nil
	}
	return c.watch(t, e)
}

func (l *single) claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error) {
	in, err := c.claimSingle(t, e)
	return c.heard(t, in, err)
}

func (l *single) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	in, err := c.removeSingle(t, e)
	return c.heard(t, in, err)
}

func (l *single) removable() bool { return false } // it went with its session, and this one may be another

func (l *single) leave(c *client, t *Seat) { c.claimants.leave(t) }

func (l *single) joins() bool { return false } // who made the node has to be known at any moment

func (l *single) told(there bool) { l.settled = there }

func (l *single) lost(c *client, t *Seat) { c.claimants.leave(t) }

func (l *single) cover(s *Session, c *client, t *Seat, node string) {
	t.want(c, node)
	s.onRequest(&verifying{epoch: c.epoch, seat: t})
}
