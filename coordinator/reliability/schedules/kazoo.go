package schedules

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// Locks with kazoo's names, and revocation requests as Curator's Revoker writes them.

// form is the form of the nodes' names in a schedule.
type form string

const (
	plainNames  form = "our names"
	kazoosNames form = "kazoo's names"          // used by every client
	mixedNames  form = "kazoo's names and ours" // one client uses kazoo's, and is refused beside ours
)

// formOf distributes the seeds, independently of recipeOf and again.
func formOf(seed uint64) form {
	switch {
	case !recipeOf(seed).basic():
		return plainNames
	case seed/16%4 == 1:
		return kazoosNames
	case seed/16%8 == 2:
		return mixedNames
	default:
		return plainNames
	}
}

// kazoo reports whether the client's locks use kazoo's names.
func (c *client) kazoo() bool {
	return c.world.form == kazoosNames || c.world.form == mixedNames && c.number == 0
}

// mayBeRefused reports whether the client may meet contenders that kazoo does not
// recognise.
func (c *client) mayBeRefused() bool { return c.world.form == mixedNames && c.kazoo() }

// askBack writes a revocation request into some nodes of a lock, as Curator's Revoker
// does. The holder keeps holding.
func (w *world) askBack(r random) {
	for _, node := range w.nodes(pick(r, w.paths...)) {
		if r.oneIn(3) {
			continue
		}
		w.asked.add(nameOf(node))
		_ = w.srv.SetData(node, []byte("__REVOKE__")) // the node may be gone
	}
}

// isKazoos reports whether the name of a holder's node has the right form.
func (c *client) isKazoos(node string) bool {
	name, _ := events.ParseName(path.Base(node))
	return name.Kind.Kazoo() == c.kazoo()
}
