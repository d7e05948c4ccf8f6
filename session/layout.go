package session

import (
	"path"

	"github.com/zkgrant/zkgrant/recipes"
)

var _, _, _, _, _ layout = queued{}, placed{}, (*permits)(nil), (*single)(nil), (*multi)(nil)

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

func (queued) several() []string { return nil }

func (queued) anew() {}

func (queued) leave(*client, *Seat) {}

func (queued) firstHolds() bool { return true }

func (queued) turnsOver() bool { return true }

func (queued) told(bool) {}

func (queued) lost(*client, *Seat) {}

func (queued) cover(s *Session, c *client, t *Seat, node string) {
	for _, node := range t.nodes(node) {
		if first := t.want(c, node); first {
			s.handle(&rearming{epoch: c.epoch, node: node})
		}
	}
	c.remind(t, t.name(node))
}

// placed is the queue of one who takes a writer's place; see downgrade.go.
type placed struct{ queued }

func (placed) create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	return c.createInPlace(t, epoch, id)
}
