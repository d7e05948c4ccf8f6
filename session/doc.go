// Package session owns the connection to ZooKeeper. It is public for readers and may
// change without notice.
//
// A Session keeps one ZooKeeper session at a time, and is the only owner of a *zk.Conn.
// The client's events, requests of the locks, answers and timers reach it through its
// [actors.Loop]. Only the lease is renewed directly, by the goroutine that reads the
// answer. The locks run in the same loop, so a call between the session and a lock needs
// no message. While the loop is idle, the goroutine that hands it work runs it, and none
// of that work blocks. Package recipes makes the decisions about locks; this package
// makes none of them.
//
// # What ZooKeeper and its client promise, and what is added here
//
// One client is one session. After an expiry, the client would silently continue with a
// new session and with the requests that it had queued. The wire below it refuses that.
// Instead, a new client with a new [recipes.Epoch] takes its place.
//
// Requests block in the client, have no context, and their errors say little. Here, each
// request runs in its own goroutine, only while there is a connection, and their number
// is bounded. Its outcome is done, refused or unknown; unknown is the default
// (zkerr.Classify). Requests on which a held lock depends go before requests of newcomers
// ([pending]).
//
// Calls that block their callers are sequential code over [call]: transactions, reads of
// queues, the size of a semaphore, observers, Revoke.
//
// A watch is recorded before the request that arms it, because its event can overtake the
// reply (watch.Set). One function arms all watches, [client.readW]. A [Seat] receives
// Gone once its node is known not to exist. After a change of data the watch is armed
// again, and the seat gets no message.
//
// Other nodes are watched as well:
//
//   - The children of one directory of a semaphore, by the first in its queue
//     ([subscriber]).
//   - The node of an election's leader, by its observers, candidates or not: once for all
//     of them in a session ([leaderWatch]).
//   - The directories of a queue, or the node of an unfair lock, by those that watch the
//     queue: once for all of them ([queueWatch]).
//   - The node of each holder with a revocation request, by Revoke ([target]).
//
// The client never reports an expiry before a server does. lease.Lease.Deadline returns
// the time until which the session cannot have expired, and holders are notified before
// then. Only writes renew it, so the session writes while any seat holds; see holders.go.
// Seats that need to know whether they still hold ask together, in one write
// ([jointClaim]).
//
// The seats of a session share the listings of a directory, because a listing answers all
// of them alike. A request is served by a listing that begins after it, and a directory
// has at most one listing in progress; see listings.go.
//
// The session leaves a silent server while there is time to connect to another one that
// reports that it serves; see wire/silence.go and wire/dial.go. Requests that an
// overloaded server turns away wait longer each time; see wire/throttle.go. Each address
// of a name is a server; see wire/hosts.go. If the servers require SASL, the exchange
// precedes the client's use of the connection; see wire/identity.go. An answer from
// an earlier connection counts as lost, unless [recipes.Lasts] says that it stays true.
//
// A free lock costs one round trip, and so does a handoff in a queue of any length,
// because requests write and read a few bytes of the lock's directory; see
// [recipes.DirectoryBook], directory.go, claim.go and release.go. What the client
// writes while data are being sent is sent together (package wire).
//
// A session that keeps locking new paths creates directories faster than servers remove
// them. It deletes those that it created and no longer uses, after all other requests;
// see [recipes.Leftovers] and leftovers.go.
//
// # The nodes of a lock
//
// Most locks are a directory with a node for each contender; the text above is about
// them. For other kinds, a Seat has additional fields, and its methods are the
// differences; see seat.go.
//
//   - A semaphore has two directories and a node for its size; see
//     semaphore.go.
//   - An unfair lock is one node, whose name does not identify its owner; see single.go
//     and [owners].
//   - A multi-lock has a node in each of several directories; see multi.go.
//   - A reader can take the place of its own writer in the queue; see seatrequest.go.
//   - A lock that reports crashes has a record next to its directory; see record.go. It
//     may have a lock-delay.
//   - A cached lock has its node in a queue, and may have a watch on the directory; see
//     arm in watches.go.
//
// # The files, from the bottom up
//
//   - Words: config, connectstring, errors, clock, node; and the packages under internal.
//   - State: session, client, seat, listings.
//   - Calls, which block, in their own goroutines: errand, which executes the plans of
//     package recipes; with it directory, claim, record, release, semaphore, multi,
//     single, watches and revocation.
//   - The loop's decisions: seatrequest, queue, holders. A request of a machine enters
//     through admit in seatrequest, and its answer leaves through settle.
//   - Calls for which callers wait: call, transaction, look, observer; and Resize in
//     semaphore, Revoke in revocation.
//   - Directories that are no longer used: leftovers.
//   - The life of a session: client, identities; and Open and Close in session.
//
// # Goroutines
//
// Each belongs to the group that the session was opened with.
//
//   - One or two per request in progress, up to 64 for a request of a multi-lock.
//   - A few, now and then: probes, questions to other servers, look-ups of names.
//   - Up to 64 for reads of queues, and one for each node that an inspection looks at.
//   - One for each observed election, and for each queue that is watched.
//   - One for the loop, if the work would keep a caller too long.
//   - Per client: one that sends while there is much to send, one that waits for the
//     client's own goroutines to end, and one that closes it.
//   - One for each holder of a Revoke, until it returns.
package session
