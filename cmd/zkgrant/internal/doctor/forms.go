package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// This file holds the table of docs/interop.md: how each library's contenders treat the
// node names of the other libraries.

// family is the library that has created a contender, as inferred from the node's name.
type family uint8

const (
	zkgrantMutex family = iota + 1
	zkgrantSides
	zkgrantAsKazoo
	curatorMutex
	curatorSides
	goZookeeper
	kazoo
	writeLock
	recipe // ZooKeeper's documented recipe, or unknown
)

func (f family) String() string {
	return [...]string{
		"", "zkgrant's mutex", "zkgrant's read/write lock", "zkgrant's lock with AsKazoo", "Curator's mutex", "Curator's read/write lock",
		"go-zookeeper's Lock", "kazoo's lock", "ZooKeeper's WriteLock", "a lock of a recipe",
	}[f]
}

// Curator's GUIDs have 36 characters, go-zookeeper's 32.
var (
	curatorName     = regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-`)
	goZookeeperName = regexp.MustCompile(`^_c_[0-9a-f]{32}-`)
)

// familyOf returns the family of a contender.
func familyOf(name events.Name) family {
	_, ours := events.MarksOf(name.Text)
	byCurator := curatorName.MatchString(name.Text)
	switch name.Kind {
	case events.KindKazooLock, events.KindKazooRead:
		if ours {
			return zkgrantAsKazoo
		}
		return kazoo
	case events.KindWriteLock:
		return writeLock
	case events.KindRead, events.KindWrite:
		switch {
		case ours:
			return zkgrantSides
		case byCurator:
			return curatorSides
		}
	case events.KindLock:
		switch {
		case ours:
			return zkgrantMutex
		case byCurator:
			return curatorMutex
		case goZookeeperName.MatchString(name.Text):
			return goZookeeper
		}
	default:
	}
	return recipe
}

// effect is how a contender treats a name that it does not know.
type effect uint8

const (
	waits  effect = iota
	fails         // it gives up with an error
	enters        // it holds at the same time as the other contender
)

// comes returns what a contender does if a name of another family and of that kind is
// ahead of it.
func (f family) comes(kind events.Kind) effect {
	sided := kind == events.KindRead || kind == events.KindWrite
	switch {
	case f == curatorMutex && (sided || kind.Kazoo() || kind == events.KindWriteLock),
		f == curatorSides && !sided,
		f == kazoo && !kind.Kazoo(),
		f == writeLock && (sided || kind.Kazoo()):
		return enters
	case f == zkgrantAsKazoo && !kind.Kazoo(),
		f == goZookeeper && kind == events.KindWriteLock:
		return fails
	default:
		return waits
	}
}

// forms judges which libraries' contenders share a directory.
func forms(n Node) (all []Finding) {
	counts, kinds := map[family]int{}, map[family][]events.Kind{}
	for _, text := range n.Contenders {
		name, ok := events.ParseName(text)
		if !ok {
			continue
		}
		f := familyOf(name)
		counts[f]++
		kinds[f] = append(kinds[f], name.Kind)
	}
	// worst returns the worst effect on the first family if the second is ahead of it.
	worst := func(a, b family) (e effect) {
		for _, kind := range kinds[b] {
			e = max(e, a.comes(kind))
		}
		return e
	}
	for a := zkgrantMutex; a <= recipe; a++ {
		for b := a + 1; b <= recipe; b++ {
			if counts[a] == 0 || counts[b] == 0 {
				continue
			}
			pair := fmt.Sprintf("%v (%d) beside %v (%d)", a, counts[a], b, counts[b])
			switch there, back := worst(a, b), worst(b, a); {
			case there == enters && back == enters:
				all = append(all, Finding{Bad, "forms", n.Path, pair + ": no exclusion, because neither sees the other's names.", advice(a, b)})
			case there == enters:
				all = append(all, Finding{Bad, "forms", n.Path, fmt.Sprintf("%s: no exclusion, because %v does not see the other's names.", pair, a), advice(a, b)})
			case back == enters:
				all = append(all, Finding{Bad, "forms", n.Path, fmt.Sprintf("%s: no exclusion, because %v does not see the other's names.", pair, b), advice(a, b)})
			case there == fails || back == fails:
				all = append(all, Finding{Warn, "forms", n.Path, pair + ": one fails where it sees the other's names.", advice(a, b)})
			case b == recipe:
				all = append(all, Finding{Warn, "forms", n.Path, pair + ": only zkgrant is known to wait for both.", advice(a, b)})
			case a == zkgrantMutex && b == zkgrantSides:
				all = append(all, Finding{Warn, "kinds", n.Path, pair + ": one path is used as two kinds, which is ErrKind within one program.", advice(a, b)})
			}
		}
	}
	kazooReads := slices.Contains(kinds[kazoo], events.KindKazooRead)
	if kazooReads && slices.Contains(kinds[kazoo], events.KindKazooLock) {
		all = append(all, Finding{
			Note, "forms", n.Path, "kazoo's readers share the path with nodes of its Lock or its WriteLock, which look the same.",
			"Make sure that it is the WriteLock: kazoo's Lock does not see readers.",
		})
	}
	return all
}

// advice returns what to do about two families in one directory.
func advice(a, b family) string {
	ours := a == zkgrantMutex || a == zkgrantSides
	switch {
	case ours && b == kazoo:
		return "Use AsKazoo (--as-kazoo) in every zkgrant process; or extra_lock_patterns in every kazoo Lock (doctor cannot see that)."
	case ours && b == zkgrantAsKazoo:
		return "Use AsKazoo (--as-kazoo) in all of them, or in none."
	default:
		return "Give each its own path; docs/interop.md says which libraries can share one."
	}
}

// families returns the families of the contenders in a directory.
func (n Node) families() (all []family) {
	for _, text := range n.Contenders {
		if name, ok := events.ParseName(text); ok {
			if f := familyOf(name); !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	slices.Sort(all)
	return all
}

func list(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
