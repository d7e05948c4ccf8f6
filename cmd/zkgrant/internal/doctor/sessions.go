package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Since ZooKeeper 3.6, the end of a session is one transaction that lists every ephemeral
// node of the session. A server that cannot read this transaction back from its log does
// not start.
const (
	// readable is the size of the largest transaction that a server can read by default:
	// jute.maxbuffer, plus an extra of the same size.
	readable = 2 * 0xfffff
	// around is the size of the transaction without the paths: a header, a count and a
	// digest.
	around = 48
	// before is the size of the length field before each path.
	before = 4
)

// Owned is what a session owns.
type Owned struct {
	Nodes int
	Bytes int // the size of the nodes in the transaction that ends the session
}

// Own counts an ephemeral node of a session. path includes the chroot.
func (t *Tree) Own(session int64, path string) {
	if t.Sessions == nil {
		t.Sessions = map[int64]Owned{}
	}
	owned := t.Sessions[session]
	owned.Nodes++
	owned.Bytes += before + len(path)
	t.Sessions[session] = owned
}

// sessions judges how close each session is to the size at which servers cannot read its
// end.
func sessions(o Observation) []Finding {
	if o.Tree == nil || len(o.Tree.Sessions) == 0 {
		return nil
	}
	const check = "session-nodes"
	all := o.Tree.Sessions
	ids := slices.SortedFunc(maps.Keys(all), func(a, b int64) int {
		return cmp.Or(cmp.Compare(all[b].Bytes, all[a].Bytes), cmp.Compare(a, b))
	})
	fullest := all[ids[0]]
	if o.old() || fullest.Bytes < readable/2 {
		return []Finding{{OK, check, o.Tree.Root, fmt.Sprintf(
			"%s here; ending the fullest takes a transaction of %d bytes, and servers read up to %d by default.",
			counted(len(ids), "session has nodes", "sessions have nodes"), around+fullest.Bytes, readable), ""}}
	}
	level := Warn
	if around+fullest.Bytes > readable {
		level = Bad
	}
	var full []string
	for _, id := range ids {
		if owned := all[id]; owned.Bytes >= readable/2 {
			full = append(full, fmt.Sprintf("0x%x has %d nodes, which take %d bytes", id, owned.Nodes, around+owned.Bytes))
		}
	}
	return []Finding{{
		level, check, o.Tree.Root,
		"Ending a session takes one transaction that lists its nodes: " + list(full) +
			fmt.Sprintf(". By default servers read up to %d bytes, and a server that cannot read the transaction does not restart.", readable),
		fmt.Sprintf("Start every server with -Dzookeeper.jute.maxbuffer.extrasize=%d before such a session ends, and spread the locks over several coordinators.",
			2*fullest.Bytes),
	}}
}

// old reports whether every server is known to be older than 3.6, where the end of a
// session lists no nodes.
func (o Observation) old() bool {
	return len(o.Servers) > 0 && !slices.ContainsFunc(o.Servers, func(s Server) bool {
		major, rest, _ := strings.Cut(s.version(), ".")
		minor, _, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(minor)
		return major != "3" || err != nil || n >= 6
	})
}
