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
	Looked  int           // how many nodes were examined
	Nodes   []Node        // the nodes that a finding may be about
	Records []Record      // of crash detection
	Ahead   time.Duration // how far the newest contender's ctime is ahead of this machine's clock

	Sessions map[int64]Owned // the sessions with ephemeral nodes at the path or below it; see [Tree.Own]
}

// Node is a directory and what is in it.
type Node struct {
	Path       string
	Refusal    string // why it cannot be read
	Ours       bool   // its data says that zkgrant has created it
	Next       int64  // the number of the next sequential node
	Contenders []string
	Persistent []string // the contenders and permits without a session
	Others     []string // its other children
}

// Record is the crash record of a holder.
type Record struct {
	Path   string // of the lock
	Holder string // the holder's node
	Since  time.Time
	Gone   bool // the record exists, but the holder's node does not
}

// NextSequence returns the number of the next sequential node in a directory. cversion
// counts creates and deletes, in 32 bits; the sequence number counts only creates.
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
			all = append(all, Finding{Warn, "unreadable", n.Path, "This path, or a contender or crash record in it, cannot be read: " + n.Refusal + ".", "Give an identity that can, with --auth-file. Contenders need READ on each other's nodes."})
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
		// The servers do not reveal whether a directory is a container.
		all = append(all, Finding{
			Note, "directories", o.Tree.Root, "Another program created directories that zkgrant locks use; they may stay when they are empty: " + list(foreign) + ".",
			"Delete them once while no process uses them: in its own directories, zkgrant takes a free lock with one request instead of four.",
		})
	}
	for _, r := range o.Tree.Records {
		if r.Gone {
			all = append(all, Finding{
				Warn, "record", r.Path, fmt.Sprintf("Its holder %s, granted at %s, has crashed, and no holder has released the lock since.", r.Holder, r.Since.UTC().Format(time.RFC3339)),
				"Repair what it left half done: the next Grant with DetectCrash reports it as Abandoned, and that holder's release deletes the record.",
			})
		}
	}
	if o.Tree.Ahead > time.Second {
		all = append(all, Finding{
			Warn, "clock", o.Tree.Root, fmt.Sprintf("A contender's time is %v ahead of this machine's clock.", round(o.Tree.Ahead)),
			"Synchronize the clocks: no lock depends on them, but the times that queue and ls show do.",
		})
	}
	if o.Tree.Looked == 0 && len(all) == 0 {
		return []Finding{{Note, "locks", o.Tree.Root, "This path does not exist.", "Check the path; the path of an unused lock is deleted."}}
	}
	if Worst(all) == OK || Worst(all) == Note {
		all = append(all, Finding{OK, "locks", o.Tree.Root, fmt.Sprintf("No problem in %s: %s in %s.", counted(o.Tree.Looked, "node", "nodes"), counted(contenders, "contender", "contenders"), counted(found, "directory", "directories")), ""})
	}
	return all
}

// counted formats a count with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (n Node) findings() (all []Finding) {
	if len(n.Persistent) > 0 {
		all = append(all, Finding{
			Bad, "persistent", n.Path, "Nodes without a session are among its contenders or permits, and block them forever: " + list(n.Persistent) + ".",
			"Delete them, unless a program of yours created them on purpose.",
		})
	}
	all = append(all, forms(n)...)
	if f := n.kinds(); f != nil {
		all = append(all, *f)
	}
	all = append(all, n.sequence()...)
	if latches := n.latches(); len(latches) > 0 && len(n.Contenders) > 0 {
		all = append(all, Finding{
			Bad, "latch", n.Path, "Curator's LeaderLatch also elects at this path, and does not see the other contenders: " + list(latches) + ".",
			"Give the latch its own path.",
		})
	}
	if strangers := n.strangers(); len(strangers) > 0 && len(n.Contenders) > 0 {
		all = append(all, Finding{
			Note, "strangers", n.Path, "Among its contenders are nodes that are not contenders: " + list(strangers) + ".",
			"Move them if go-zookeeper or Curator locks this path: go-zookeeper fails on them, and Curator may wait for them forever.",
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

// kinds reports a path that is used both as a semaphore and as another kind of lock.
func (n Node) kinds() *Finding {
	if len(n.Contenders) == 0 {
		return nil
	}
	const do = "Give each kind its own path, and delete the node size of a semaphore that is no longer used."
	switch {
	case slices.Contains(n.Others, leases):
		return &Finding{Bad, "kinds", n.Path, "This path is used as a semaphore and as another kind of lock, which do not exclude each other.", do}
	case slices.Contains(n.Others, sizeNode):
		return &Finding{Warn, "kinds", n.Path, "This path is used as a lock, but also has a semaphore's size.", do}
	default:
		return nil
	}
}

// strangers returns the children that belong to neither a lock nor a latch.
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

// sequence judges how close the directory's sequence numbers are to their limit.
func (n Node) sequence() []Finding {
	const late, do = math.MaxInt32 / 4 * 3, "Let it be empty for a moment: zkgrant then renews its own directory. Delete one that another library created."
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
