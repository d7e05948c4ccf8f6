package session

import (
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// plainContents returns the contents that seats of a queue share if they ask for nothing
// of their own.
func plainContents(acl []zk.ACL) map[events.Kind]*content {
	all := map[events.Kind]*content{}
	for _, kind := range [...]events.Kind{
		events.KindLock, events.KindRead, events.KindWrite, events.KindKazooLock, events.KindKazooRead,
	} {
		all[kind] = &content{kind: kind, data: dataOf(kind, nil), acl: acl}
	}
	return all
}

// Seat returns a seat for the place. It does nothing before its Open.
func (s *Session) Seat(p Place) *Seat {
	if p.Kind == 0 {
		p.Kind = events.KindLock
	}
	t := &Seat{session: s, dir: under(s.chroot, p.Dir), content: s.plain[p.Kind]}
	if t.content == nil || p.Data != nil || p.ACL != nil || p.In != nil || p.Size > 0 || p.Marks != 0 || p.Detect || p.Delay != 0 || p.Members != nil {
		t.content = &content{
			kind: p.Kind, marks: p.Marks, data: dataOf(p.Kind, p.Data), acl: p.ACL,
			in: p.In, lent: p.In.fence(), detect: p.Detect, delay: p.Delay,
		}
		if p.ACL == nil {
			t.acl = s.cfg.ACL
		}
	}
	switch {
	case p.Kind == events.KindUnfair:
		t.layout, t.single = recipes.LayoutNode, &single{node: t.dir, glance: p.Try}
		t.dir = path.Dir(t.dir)
	case p.Size > 0:
		t.permits, t.several = newPermits(t.dir, p.Size, p.Permits), &ownNodes{}
		t.dir = path.Join(t.dir, queueDir)
	case p.In != nil:
		t.layout = recipes.LayoutPlace
	case p.Members != nil:
		t.layout, t.members, t.several = recipes.LayoutSeveral, s.members(p.Members), &ownNodes{}
	}
	t.brief = t.isBrief()
	return t
}

func newPermits(root string, opinion, wanted int32) *permits {
	return &permits{
		root: root, dir: path.Join(root, permitDir), size: path.Join(root, SizeNode), opinion: opinion, wanted: wanted,
	}
}

// dataOf returns the data of a node. When kazoo shows the contenders it leaves out nodes
// without data, but not those with empty data.
func dataOf(kind events.Kind, data []byte) []byte {
	if data == nil && kind.Kazoo() {
		return []byte{}
	}
	return data
}

// Place describes where and as what an acquisition queues.
type Place struct {
	Dir    string        // the lock's directory, without the chroot
	Kind   events.Kind   // of the node's name; 0 is KindLock, and with KindUnfair Dir is not a directory but the node itself
	Data   []byte        // stored in the node
	ACL    []zk.ACL      // nil: that of the session's config
	Try    bool          // the caller will not wait; for a lock of one node the look for its holder leaves no watch then
	In     *Seat         // a writer: the node takes its place in the queue; nil: a place of its own
	Detect bool          // the lock reports crashes
	Delay  time.Duration // the lock-delay after a crash

	Marks events.Marks // of its nodes

	Size    int32 // of a semaphore: the size to write if none is written yet; 0: it is no semaphore
	Permits int32 // of a semaphore: how many permits to take

	Members []Place // of a multi-lock; of each Dir, Kind and ACL count. Dir and Kind above are those of the first
}

func (s *Session) members(places []Place) []member {
	all := make([]member, len(places))
	for i, p := range places {
		all[i] = member{path: p.Dir, dir: under(s.chroot, p.Dir), kind: p.Kind, acl: p.ACL}
		if p.ACL == nil {
			all[i].acl = s.cfg.ACL
		}
	}
	return all
}

// SizeOfMembers returns the bytes of the largest request for a multi-lock of these
// places, without data in its nodes and without a fixed overhead.
func (s *Session) SizeOfMembers(places []Place) (size int) {
	for _, m := range s.members(places) {
		size += m.size(0)
	}
	return size
}
