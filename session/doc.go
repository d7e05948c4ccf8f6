// Package session owns the connection to ZooKeeper. It is public for readers and may
// change without notice.
//
// A [Session] keeps one ZooKeeper session at a time, and is the only owner of a *zk.Conn.
// Everything reaches it through its
// [actors.Loop]: the client's events, what callers ask of the locks, answers, timers. The locks run in the same loop, so a call
// from one to the other needs no message. While the loop is idle, the goroutine that
// brings something runs it, and none of that work blocks. Package recipes decides about
// locks; this package decides nothing about them.
//
// # What ZooKeeper and its client promise, and what is added here
//
// One client is one session. The client would silently go on with a new session after an
// expiry, and with it the requests it had queued. The [wire] under it refuses that. A
// fresh client with a fresh [recipes.Epoch] takes its place.
//
// Requests block in the client, have no context, and their errors say little. Here each
// runs in a goroutine of its own, a bounded number at a time, only while there is a
// connection. It is classified as done, refused or unknown, and unknown is the default
// ([zkerr.Classify]). Requests on which a held lock depends go before requests of
// newcomers ([pending]).
//
// What callers themselves wait for is ordinary sequential code over [call]: transactions,
// looks, the size of a semaphore, observers, Revoke.
//
// Watches are noted before the request that arms them is made, because the event can
// overtake the reply ([watch.Set]). All of them are armed by one function,
// [client.readW]. A [Seat] is told Gone once the node is known not to exist. A change of
// data arms the watch again, and the seat does not hear of it.
//
// Other nodes are watched as well:
//
//   - The children of one directory of a semaphore, by the first in its queue
//     ([subscriber]).
//   - The node of an election's leader, by its observers, candidates or not: once for all
//     of them in a session ([leaderWatch]).
//   - The directories of a queue, or the node of an unfair lock, by those that watch the
//     queue: once for all of them ([queueWatch]).
//   - The node of each holder that is asked for its lock, by Revoke ([target]).
//
// The client never says that a session has expired before a server does.
// [lease.Lease.Deadline] returns until when it cannot have expired, and holders are told
// before that moment. Only writes renew it, so the session writes while any seat holds;
// see holders.go. Seats that want to know whether they hold still ask together, in one
// write ([jointClaim]).
//
// The seats of a session share the listings of a directory, because a listing tells each
// of them the same. A listing that begins after a request serves it, and one listing of a
// directory is under way at a time; see listings.go.
//
// The session leaves a server that says nothing while there is time to connect to another
// one that says that it serves; see wire/silence.go and wire/ask.go. Requests that a
// server turns away because it has too many wait longer each time; see wire/throttle.go.
// Each address of a name is a server, see wire/resolve.go. If the servers ask for SASL,
// the exchange comes before the client hears of its connection; see wire/authenticate.go.
// An answer that has come on an earlier connection counts as lost; see settle.go.
//
// A free lock costs one round trip, and a handoff as much in any queue, because requests
// write and read a few bytes of the lock's directory; see [recipes.DirectoryBook],
// directory.go, handoff.go and turnover.go. What the client writes while something is
// being sent goes out together (package wire).
//
// A session that takes locks at ever fresh paths makes directories faster than servers
// remove them. It removes those that it has made and does not use any more, after all
// other requests; see [recipes.Leftovers] and leftovers.go.
//
// # How the nodes of a lock stand
//
// Most locks are a directory with a node for each contender. The above is about them. A
// [Seat] has what other kinds have in addition, and its methods are what they differ in;
// see seat.go.
//
//   - A semaphore has two directories and a node for its size, see semaphore.go and
//     size.go.
//   - An unfair lock is one node. Its name does not tell its owner, see single.go and
//     [owners].
//   - A multi-lock has a node in each of several directories, see multi.go.
//   - A reader can take the place of its own writer in the queue, see downgrade.go.
//   - A lock that tells of crashes has a record beside its directory, see crash.go; it
//     may ask for a lock-delay, see lockdelay.go.
//   - A cached lock has its node in a queue, and may have a watch on the directory, see
//     contention.go.
//
// # The files, from the bottom up
//
// A file uses the files before it. Exception: the files of the state know each other.
//
//   - Words: config, connectstring, errors, clock, guid, nodedata, directory; and the
//     packages under internal.
//   - State: session, client, seat, asked, listings, owners, and queue, which makes
//     requests.
//   - Calls, which block, in goroutines of their own: calls, and errand, which carries
//     out the plans of package recipes; with them requests, discard, handoff, downgrade,
//     crash, lockdelay, renewal, semaphore, size, multi, single, contention, watches and
//     wish.
//   - The loop's decisions: holders, settle, admit, warmth, turnover, jointclaim, upkeep,
//     news. A request comes in by admit, and its answer goes out by settle.
//   - What a machine asks of a seat: port.
//   - What callers wait for: call, transaction, look, observe, revoke; and Resize in
//     size.
//   - Directories that are not used any more: leftovers.
//   - The life of a session: connection, away, shut, open.
//
// # Goroutines
//
// Each belongs to the group that the session was opened with.
//
//   - One or two per request under way.
//   - Up to 64 for what looks read.
//   - One for each election that is observed.
//   - One for the loop, if the work would keep a caller too long.
//   - Per client: one that sends while there is much to send, one that waits for the
//     client's own goroutines to end, and one that closes it.
//   - One for each holder of a Revoke, until it returns.
package session
