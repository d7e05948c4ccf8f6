package recipes

// This file is about claims that need not be sent: those of a warm session, which knows
// everything that the answer would say.
//
// A contender claims when its machine has learnt that no contender is ahead: it was
// listed as the first, or the node ahead of it went. The session has learnt that from the
// servers at one point z of their order. The answer to a claim would say two things:
//
//  1. The session lives. The lease says so, by an earlier write.
//  2. The contender's node was there at a point after z. The session knows that it was
//     there at z: its watch was armed on this connection, and has not fired, and the
//     servers report its end before they report z. If it goes after z, a claim may
//     have come before that, too, and the watch reports it.
//
// From z on no node is ahead of the contender's. So no other contender is granted the
// lock before this node goes or its session ends.
//
// A reconnect breaks 2: what has happened meanwhile is reported in any order. So the
// contender has to have been listed on this connection.
//
// If the nodes of a queue are deleted by hand, one by one, each contender is granted the
// lock when the node ahead goes, and loses it when its own does.
//
// The lease is good while the session holds another lock. For a contender that is next in
// line, and has not been for longer than a session timeout, the session writes as if it
// held. So the standby of a long election costs nothing, and sends a claim at the end.

// Warmth is what a session knows of a contender that is to claim. It is a small
// comparable value.
type Warmth struct {
	Connected bool // there is a connection,
	Listed    bool // on it the contender was listed with its node,
	Watched   bool // and the node is certainly watched, and has not changed since
	Lease     bool // the lease is good for half the session timeout, and a write sent within two probe intervals was answered
}

// warm adds the effect that keeps the session warm, if the contender ahead is the only
// one and its end alone is enough for a claim that a session may know.
func (m *Machine) warm(effects []Effect) []Effect {
	if _, several := m.rule.(Multi); several || m.ahead != 1 || m.detect || m.queues() ||
		replaceable(m.rule, m.older[0]) {
		return effects
	}
	return append(effects, Warm{})
}

// Claims reports whether the contender's claim counts as proven without sending it.
func (w Warmth) Claims() bool { return w.Connected && w.Listed && w.Watched && w.Lease }

// Knowable reports whether a warm session knows the answer to the claim. It does not for
// a claim with a record, which is on the servers; for a lock of one node, whose watch
// does not say whose the node is; or for several nodes, which have no common watch.
func (e Claim) Knowable(l Layout) bool {
	return !e.Held && e.Record == RecordNothing && (l == LayoutQueue || l == LayoutPlace)
}
