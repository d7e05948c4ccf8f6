package session

import (
	"sync"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// containerNodes is what a session has seen of container nodes on its servers.
//
//   - ZooKeeper before 3.5 answers that it knows no such request, and closes the connection.
//   - ClickHouse Keeper before 2026 closes the connection and says nothing.
//
// Network trouble looks like the second. So it takes two such connections, and no answered request. If both were trouble,
// directories stay that might have been removed.
type containerNodes struct {
	mu    sync.Mutex
	known bool // a server has answered such a request, so it knows it
	lacks bool
	lost  int // connections that ended instead of an answer
	on    any // the latest of them
}

// lostForLack is after how many connections the servers are taken not to have container nodes.
const lostForLack = 2

// lacking reports whether the servers are taken to have none.
func (n *containerNodes) lacking() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lacks
}

// heard notes what became of a request for one on a connection. It returns whether that is why the servers are taken to have none.
func (n *containerNodes) heard(on any, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := n.lacks
	switch outcome, _ := zkerr.Classify(err); {
	case err != nil && zkerr.Unnamed(err) == zkerr.CodeUnimplemented:
		n.lacks = true
	case outcome == zkerr.Unknown:
		if !n.known && on != n.on {
			n.on = on
			n.lost++
		}
		n.lacks = n.lacks || n.lost == lostForLack
	case outcome.Settled():
		n.known = true
	}
	return n.lacks && !had
}
