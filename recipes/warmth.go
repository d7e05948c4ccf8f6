package recipes

// This file is about claims that need not be sent: those of a warm session, which already
// knows what the answer would prove.
//
// A contender claims when its machine learns that no contender is ahead: it was listed
// first, or the node ahead of it is gone. That was true at some point z in the servers'
// order. The answer to a claim would prove two things:
//
//  1. The session is alive. The lease proves that, by an earlier write.
//  2. The contender's node existed at some point after z. The session knows that it
//     existed at z: its watch was armed on this connection and has not fired, and the
//     servers would have reported its end before they reported z. If the node is deleted
//     after z, a claim could have preceded that, too, and the watch reports it.
//
// From z on, no node is ahead of the contender's. So no other contender is granted the
// lock before this node is deleted or its session ends.
//
// A reconnect breaks 2, because events that were missed are reported in any order. So the
// contender must have been listed on this connection.
//
// If an operator deletes the nodes of a queue one by one, each contender is granted the
// lock when the node ahead is deleted, and loses it when its own node is.
//
// The lease is good while the session holds another lock. For a contender that is next in
// line, the session writes as if it held the lock, but for one session timeout at most.
// So the standby of a long election costs nothing, and sends a claim at the end.

// Warmth is what a session knows about a contender that is about to claim. It is a small
// comparable value.
type Warmth struct {
	Connected bool // there is a connection
	Listed    bool // the contender was listed on this connection, with its node
	Watched   bool // the node is certainly watched, and has not changed since
	Lease     bool // the lease is good for half a session timeout, and a write sent within two probe intervals was answered
}

// warm adds the effect that keeps the session warm, if only one contender is ahead and
// the news of its end is followed by a claim that a warm session need not send.
func (m *Machine) warm(effects []Effect) []Effect {
	if _, several := m.rule.(Multi); several || m.ahead != 1 || m.detect || m.queues() ||
		replaceable(m.rule, m.older[0]) {
		return effects
	}
	return append(effects, Warm{})
}

// Claims reports whether the contender's claim counts as proven without sending it.
func (w Warmth) Claims() bool { return w.Connected && w.Listed && w.Watched && w.Lease }

// Knowable reports whether a warm session can know the answer to the claim. It cannot for
// a claim with a record, which is on the servers; for a lock's single node, whose watch
// does not say who owns the node; or for several nodes, such as permits, which have no
// common watch.
func (e Claim) Knowable(l Layout, nodes int) bool {
	return !e.Held && e.Record == RecordNothing && (l == LayoutQueue || l == LayoutPlace) && nodes == 1
}
