package recipes

// This file is about the claims that need not be sent: those of a warm session, which knows all that the answer would say.
//
// A claim is asked for by a contender whose machine has learnt that nobody is ahead: it was listed as the first, or the node ahead of it went.
// The session has learnt that from the servers at one point z of their order. The answer to a claim would say two things.
//
//  1. The session lives. The lease says so, by what was written before.
//  2. The contender's node was there at a point behind z. It was there at z: its watch was armed on this connection, and has not fired, and the
//     servers tell of its end before they tell of z. If it goes behind z, a claim may have come before that, too. The watch tells of it.
//
// From z on the contender is the first whose node stands, so no other one is granted the lock before its node goes or its session ends.
//
// A reconnect breaks 2: what has happened meanwhile is told in any order. So the contender has to have been listed on this connection.
//
// If all that has come is the news that the node ahead is gone, the session looks at the contender's node all the same, with a read. A queue
// whose nodes are deleted by hand, one by one, would otherwise be granted from node to node, each for a moment. A floor, or a release of
// the session's own, says to an advance that the node ahead was released, and nothing is looked at.

// Warmth is what a session knows of a contender that is to claim. It is a small comparable value.
type Warmth struct {
	Connected bool // there is a connection,
	Listed    bool // the contender was listed with its node on it,
	Watched   bool // and the node is watched on it, for certain, and has not changed since
	Lease     bool // the lease is good for half the session timeout, and a write was answered that was sent within two probe intervals
}

// Claims reports whether the contender may be told that its claim is proven, though nothing is sent.
func (w Warmth) Claims() bool { return w.Connected && w.Listed && w.Watched && w.Lease }

// Knowable reports whether a warm session knows the answer to the claim. That to the claim of a record stands at the servers. Of a lock of one
// node a watch does not say whose the node is, and several nodes are not watched as one.
func (e Claim) Knowable(l Layout) bool {
	return !e.Held && e.Record == RecordNothing && (l == LayoutQueue || l == LayoutPlace)
}
