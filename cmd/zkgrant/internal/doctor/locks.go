package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Tree is what was seen at a path and below it.
type Tree struct {
	Root    string
	Looked  int           // how many nodes were looked at
	Nodes   []Node        // those that some finding may be about
	Records []Record      // of crash detection
	Ahead   time.Duration // how far the youngest contender's time is ahead of this machine's clock

	Sessions map[int64]Owned // with ephemeral nodes at the path or below it; see [Tree.Own]
}

// Node is a directory and what is in it.
type Node struct {
	Path       string
	Refusal    string // why it cannot be read
	Ours       bool   // its data say that zkgrant has made it
	Next       int64  // the number of the next sequential node
	Contenders []string
	Persistent []string // the contenders and permits that belong to no session
	Others     []string // its other children
}

// Record is the record of a holder with crash detection.
type Record struct {
	Path   string // of the lock
	Holder string // the holder's node
	Since  time.Time
	Gone   bool // the holder's node does not exist, and the record still does
}

// NextSequence returns the number of the next sequential node of a directory. cversion counts creates and deletes, in 32 bits; the
// number counts creates alone.
func NextSequence(cversion, children int32) int64 {
	return int64(uint32(cversion)+uint32(children)) / 2
}

// locks judges what was seen of the locks.
func locks(o Observation) (all []Finding) {
	if o.Tree == nil {
		return nil
	}
	var foreign []string
	found, contenders := 0, 0
	for _, n := range o.Tree.Nodes {
		if n.Refusal != "" {
			all = append(all, Finding{Warn, "unreadable", n.Path, "It, or a contender or record in it, may not be read: " + n.Refusal + ".", "Give an identity that may, with --auth-file. Contenders need READ for each other."})
			continue
		}
		if len(n.Contenders) > 0 {
			found++
			contenders += len(n.Contenders)
			if families := n.families(); !n.Ours && (slices.Contains(families, zkgrantMutex) || slices.Contains(families, zkgrantSides)) {
				foreign = append(foreign, n.Path)
			}
		}
		all = append(all, n.findings()...)
	}
	if len(foreign) > 0 {
		// The servers tell no client whether a directory is a container.
		all = append(all, Finding{
			Note, "directories", o.Tree.Root, "Another program has made directories of zkgrant's locks, which may stay when they are empty: " + list(foreign) + ".",
			"Delete them once when no process uses them: in its own, zkgrant takes a free lock with one request instead of four.",
		})
	}
	for _, r := range o.Tree.Records {
		if r.Gone {
			all = append(all, Finding{
				Warn, "record", r.Path, fmt.Sprintf("Its holder %s, since %s, has crashed, and no holder has released since.", r.Holder, r.Since.UTC().Format(time.RFC3339)),
				"Repair what it left half done: the next Grant with DetectCrash has it as Abandoned, and its release removes the record.",
			})
		}
	}
	if o.Tree.Ahead > time.Second {
		all = append(all, Finding{
			Warn, "clock", o.Tree.Root, fmt.Sprintf("A contender's time is %v ahead of this machine's clock.", round(o.Tree.Ahead)),
			"Synchronise the clocks: no lock rests on them, but the times that queue and ls show do.",
		})
	}
	if o.Tree.Looked == 0 && len(all) == 0 {
		return []Finding{{Note, "locks", o.Tree.Root, "There is no such node.", "Look whether the path is right; a lock's path vanishes when it is not used."}}
	}
	if Worst(all) == OK || Worst(all) == Note {
		all = append(all, Finding{OK, "locks", o.Tree.Root, fmt.Sprintf("Nothing in %s breaks a lock; there are %s in %s.", counted(o.Tree.Looked, "node", "nodes"), counted(contenders, "contender", "contenders"), counted(found, "directory", "directories")), ""})
	}
	return all
}

// counted formats a number of things.
func counted(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (n Node) findings() (all []Finding) {
	if len(n.Persistent) > 0 {
		all = append(all, Finding{
			Bad, "persistent", n.Path, "Nodes of no session stand among its contenders or permits, and block for ever: " + list(n.Persistent) + ".",
			"Delete them, if no program of yours has made them on purpose.",
		})
	}
	all = append(all, forms(n)...)
	if f := n.kinds(); f != nil {
		all = append(all, *f)
	}
	all = append(all, n.sequence()...)
	if latches := n.latches(); len(latches) > 0 && len(n.Contenders) > 0 {
		all = append(all, Finding{
			Bad, "latch", n.Path, "Curator's LeaderLatch elects at this path, too, and does not see the other contenders: " + list(latches) + ".",
			"Give the latch a path of its own.",
		})
	}
	if strangers := n.strangers(); len(strangers) > 0 && len(n.Contenders) > 0 {
		all = append(all, Finding{
			Note, "strangers", n.Path, "There are nodes among its contenders that are none: " + list(strangers) + ".",
			"Put them elsewhere if go-zookeeper or Curator locks this path: the one fails on them, the other may wait for them for ever.",
		})
	}
	return all
}

// The nodes of a semaphore: its size, the permits in use, and a queue.
const (
	sizeNode = "size"
	leases   = "leases"
	queue    = "locks"
)

// kinds finds a path that is used as a semaphore and as another kind of lock.
func (n Node) kinds() *Finding {
	if len(n.Contenders) == 0 {
		return nil
	}
	const do = "Give each kind its own path, and delete the node size of a semaphore that is not used any more."
	switch {
	case slices.Contains(n.Others, leases):
		return &Finding{Bad, "kinds", n.Path, "It is used as a semaphore and as another kind of lock, which do not exclude each other.", do}
	case slices.Contains(n.Others, sizeNode):
		return &Finding{Warn, "kinds", n.Path, "It is used as a lock, and has the size of a semaphore.", do}
	default:
		return nil
	}
}

// strangers returns the children that no lock has made, and no latch.
func (n Node) strangers() []string {
	return slices.DeleteFunc(slices.Clone(n.Others), func(name string) bool {
		return name == sizeNode || name == leases || name == queue || isLatch(name)
	})
}

// latches returns the nodes of Curator's LeaderLatch.
func (n Node) latches() []string {
	return slices.DeleteFunc(slices.Clone(n.Others), func(name string) bool { return !isLatch(name) })
}

func isLatch(name string) bool {
	const number = 10 // digits
	form, digits := name[:max(0, len(name)-number)], name[max(0, len(name)-number):]
	return strings.HasSuffix(form, "latch-") && strings.Trim(digits, "0123456789") == ""
}

// sequence judges how close the directory's sequence numbers are to their end.
func (n Node) sequence() []Finding {
	const late, do = math.MaxInt32 / 4 * 3, "Have it empty for a moment: zkgrant renews its own directory then. Delete one that another library has made."
	for _, text := range n.Contenders {
		if name, ok := events.ParseName(text); ok && name.Check() != nil {
			return []Finding{{Bad, "sequence", n.Path, "The sequence numbers of its nodes are used up: " + text + ".", do}}
		}
	}
	share := func() string { return fmt.Sprintf("%d of 2147483647 sequence numbers are used.", n.Next) }
	switch {
	case n.Next >= events.SeqEnd:
		return []Finding{{Bad, "sequence", n.Path, share(), do}}
	case n.Next >= events.SeqLate:
		return []Finding{{Warn, "sequence", n.Path, share(), do}}
	case n.Next >= late:
		return []Finding{{Note, "sequence", n.Path, share(), do}}
	default:
		return nil
	}
}
