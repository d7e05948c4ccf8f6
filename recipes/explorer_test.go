package recipes

import (
	"fmt"
	"runtime"

	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

// A finding is what a visit has come to, and what the machines met on it.
type finding struct {
	searchtest.Finding

	met     map[meeting]bool
	changes map[change]bool
}

// explore visits every world of a configuration, unless there are more than the
// limit or one breaks a promise.
func explore(machine stepFunc, cfg config, limit int) (f finding) {
	defer runtime.GC() // the next configuration needs the memory
	if cfg.memory > 0 {
		machine = remembering(cfg.memory, machine)
	}
	if cfg.single {
		machine = capped(2, machine)
	}
	e := &environment{interpreter: newInterpreter(machine, 0), options: cfg.options}
	root := newWorld(cfg.clients, cfg.left, cfg.flags, cfg.roles)
	if cfg.places != nil {
		inDirectories(e, &root, cfg.places)
	}
	for c, rule := range cfg.rules {
		root.clients[c].machine = e.intern(NewMachine(rule))
	}
	e.open(&root)
	f.Finding = searchtest.Visit(searchtest.Model[world, step](e), root, limit)
	f.met, f.changes = e.meetings(), e.changes()
	return f
}

// A narrator tells an interleaving.
type narrator struct {
	*environment

	names permutation // which caller each client of the present world is
}

// Narrate returns a narrator from the start.
func (e *environment) Narrate() searchtest.Narrator[world, step] { return &narrator{e, identity} }

// Tell takes a step, and returns what happens.
func (n *narrator) Tell(w *world, s step) []string {
	lines := []string{n.stepText(w, s, rune('a'+n.names[s.client]))}
	n.log = func(c int, text string) { lines = append(lines, fmt.Sprintf("%c: %s", 'a'+n.names[c], text)) }
	n.Take(w, s)
	n.log = nil
	before := n.names
	for c := range n.names {
		n.names[c] = before[n.perm[c]]
	}
	return lines
}

// Standing describes a world.
func (n *narrator) Standing(w *world) (text string) {
	for c := range w.clients {
		text += fmt.Sprintf("%c %v, ", 'a'+n.names[c], n.machines[w.clients[c].machine].state)
	}
	return fmt.Sprintf("%snodes %08b, directory %02x", text, w.past[0], w.dirs[0])
}
