package session

import (
	"path"

	"github.com/zkgrant/zkgrant/recipes"
)

var _, _, _, _, _ layout = queued{}, placed{}, (*permits)(nil), (*single)(nil), (*multi)(nil)

// create makes the own node, and the directory if there is none.
func (queued) create(c *client, t *Seat, epoch recipes.Epoch, id guid) (recipes.Input, error) {
	return c.carryOut(errand{Errand: recipes.Errand{Op: recipes.OpCreate, Epoch: epoch}, seat: t, own: t.prefix(id)})
}

func (queued) list(c *client, t *Seat, e recipes.List, id guid, found []*names) (recipes.Input, error) {
	return c.list(t, e, id, found[0])
}

func (queued) watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error) {
	return c.watch(t, e)
}

// claim writes through the quorum on condition that the own node exists, or that all the permits do.
func (queued) claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error) {
	nodes, incomplete := t.claimed(e.Epoch, t.at(e.Node))
	if incomplete != nil {
		return incomplete, errIncomplete
	}
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpClaim, Epoch: e.Epoch, Record: e.Record}, seat: t, own: nodes[0], nodes: nodes,
	}) // the loop judges the lease
}

// claimed returns the nodes that a claim checks: all the nodes of which the own one is the first. If not all of them are known it returns
// what the machine is told.
func (t *Seat) claimed(epoch recipes.Epoch, own string) (nodes []string, incomplete recipes.Input) {
	nodes = t.nodes(own)
	return nodes, recipes.Claim{Epoch: epoch}.Incomplete(len(nodes), t.layout.needs(own))
}

func (queued) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	return c.remove(t, e)
}

func (queued) form() recipes.Layout { return recipes.LayoutQueue }

func (queued) reads(t *Seat) []string { return []string{t.dir} }

func (queued) needs(string) int { return 1 }

func (queued) at(t *Seat, name string) string { return below(t.dir, name) }

func (queued) nameOf(node string) string { return path.Base(node) }

func (queued) blame(_ string, err error) error { return err }

func (queued) removable() bool { return true }

func (queued) several() []string { return nil }

func (queued) anew() {}

func (queued) leave(*client, *Seat) {}

func (queued) firstHolds() bool { return true }

func (queued) told(bool) {}

func (queued) lost(*client, *Seat) {}

func (queued) cover(s *Session, c *client, t *Seat, node string) {
	for _, node := range t.nodes(node) {
		if t.want(c, node) {
			s.take(&rearming{epoch: c.epoch, node: node})
		}
	}
	s.remind(c, t, t.name(node))
}
