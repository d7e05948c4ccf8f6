// Package session owns the connection to ZooKeeper. It is public for readers
// and may change without notice.
//
// A [Session] is an actor that keeps one ZooKeeper session at a time, and the
// only owner of a *zk.Conn. Everything reaches it as a message: the client's
// events, requests of the lock actors and their answers, timers. An idle one may
// work in the goroutine of whoever comes with a message, and none of its work
// blocks. Package recipes decides about locks; this package decides nothing about
// them.
//
// # What ZooKeeper and its client promise, and what is added here
//
// One client is one session. The client would silently go on with a new session
// after an expiry, and with it the requests it had queued. The [wire] under it
// refuses that; a fresh client with a fresh [recipes.Epoch] takes its place.
//
// Requests block in the client, have no context, and their errors say little.
// Here each runs in a goroutine of its own, a bounded number at a time, only
// while there is a connection, and is classified as done, refused or unknown,
// unknown being the default ([zkerr.Classify]). What a lock waits for that is held goes before the requests of those who come anew
// ([pending]).
//
// What callers wait for themselves is ordinary sequential code over [call]: transactions, looks, the size of a semaphore, observers, Revoke.
//
// Watches are noted before the request that arms them is made, because the event
// can overtake the reply ([watch.Set]). A [Seat] is told Gone once the node is known not to
// exist; changes of data arm the watch again unseen.
//
// Of a semaphore the children of one directory are watched as well, by
// whoever is the first in its queue ([subscriber]). So is the node of an election's leader, by who observes it, candidate or
// not: once for all who do so in a session ([leaderWatch]). So is the node of each holder that somebody wants the lock back from ([target]).
//
// The client never says that a session has expired before a server does. The
// [lease.Lease.Lease] says when it might have, and holders are told before that. It is renewed by
// writes only, so the session writes while any seat holds; see holders.go. Seats that want to know whether they hold still ask
// together, in one write ([jointClaim]).
//
// The seats of a session share the listings of a directory, for these tell each of them the same. A request is served by a
// listing that begins after it, and of a directory one is under way at a time; see listings.go.
//
// A server that says nothing is left while there is time to connect to another one, but not a slow one again and again; see wire/silence.go.
// Each address of a name is a server, see wire/resolve.go. Where
// the servers ask for SASL, the exchange comes before the client hears of its connection; see wire/authenticate.go. An
// answer that has come on an earlier connection is as good as lost; see settle.go.
//
// A free lock costs one round trip, and a handoff as much in any queue, because
// requests write and read a few bytes of the lock's directory; see [recipes.DirectoryBook], directory.go,
// handoff.go and turnover.go. What the client writes while something is being sent
// goes out together (package wire).
//
// # How the nodes of a lock stand
//
// Most locks are a directory with a node for each contender, and what is said above is about
// them. A semaphore has two directories and a node for its size, see semaphore.go and size.go. An unfair lock
// is one node, of which the name does not tell whose it is, see single.go and [claimants]. A multi-lock has a node in each of
// several directories, see multi.go. A writer's place
// in the queue may be taken by its own reader, see downgrade.go, and one node may be held by
// several seats, see share.go. A lock that tells of crashes has a record beside its directory, see crash.go.
//
// # The files, from the bottom up
//
// A file uses what stands before it. The state is the exception: its nine files know each other.
//
//   - Words: config, errors, clock, guid, wish, timeoutline, directory; and the packages under internal.
//   - State: session, client, seat, names, asked, listings, claimants, pending, and queue, which takes messages and makes requests.
//   - Calls, which block, in goroutines of their own: calls, revoke, and errand, which carries out the plans of package recipes; with them
//     requests, handoff, downgrade, crash, renewal, semaphore, permits, size, members, multi, single, and layout for what kinds of locks share.
//   - The drain's decisions: holders, share, singlenews, rearming, settle, listed, admit, warmth, turnover, jointclaim, upkeep, news. A request
//     comes in by admit, and its answer goes out by settle.
//   - What a machine asks of a seat: port.
//   - What callers wait for: call, transaction, look, inspect, resize, observe, revoker, with what these need.
//   - The life of a session: connection, shut, open.
//
// # Goroutines
//
// Each belongs to the group that the session was opened with: one or two per request
// under way, which are kept while any is, and up to 64 for what looks read; one for each election that is observed; one for the session's mailbox, if what
// comes in would keep somebody else too long; per client one that sends while there is
// much to send, one that waits for the client's own goroutines to end, and one that
// closes it. A Revoke runs one for each holder, until it returns.
package session
