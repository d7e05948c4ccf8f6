// Package session owns the connection to ZooKeeper. It is public so that it can be read,
// and may change without notice.
//
// A Session has one ZooKeeper session at a time, and is the only owner of a *zk.Conn. The
// client's events, requests of the locks, answers and timers reach it through its
// [actors.Loop]. Only the lease is renewed directly, by the goroutine that reads the
// answer. The locks run in the same loop, so a call between the session and a lock needs
// no message. If the loop is idle, the goroutine that hands it work runs it; none of that
// work blocks. Package recipes decides about locks. This package decides in which order
// their requests are sent, see [pending].
//
// # What ZooKeeper and its client promise, and what is added here
//
// One client is one session. After an expiry, the client would silently continue with a
// new session and the requests it had queued. The wire below it prevents that. Instead, a
// new client with a new [recipes.Epoch] replaces it.
//
// The client's requests block, take no context, and return errors that say little. Here,
// each request runs in its own goroutine, only while there is a connection, and their
// number is limited. Its outcome is done, refused, turned away or unknown, the default
// (zkerr.Classify). Requests that a held lock depends on precede requests of newcomers
// ([pending]).
//
// Calls that block their callers are sequential code on top of [call]: transactions,
// reads of queues, the size of a semaphore, observers, Revoke.
//
// A watch is recorded before the request that arms it, because its event can overtake the
// reply (watch.Set). A single function, [client.readW], arms all watches. A [Seat]
// receives Gone once its node is known not to exist. After a change of data, the watch is
// armed again without a message to the seat.
//
// Other nodes are watched, too:
//
//   - The children of one directory of a semaphore, by the first in its queue
//     ([subscriber]).
//   - The node of an election's leader, by its observers, whether or not they are
//     candidates: once per session for all of them ([leaderWatch]).
//   - The directories of a queue, or the node of an unfair lock, by callers that watch
//     the queue: once for all of them ([queueWatch]).
//   - The node of each holder with a revocation request, by Revoke ([target]).
//
// The client never reports an expiry before a server does. lease.Lease.Deadline returns
// the time until which the session cannot have expired, and holders are notified before
// then. Only writes renew it, so the session writes while any seat holds; see holders.go.
// Seats that need to know whether they still hold ask together, in one write
// ([jointClaim]; see joint.go).
//
// The seats of a session share the listings of a directory, because the answer is the
// same for all of them. A request is served by a listing that begins after it, and a
// directory has at most one listing in progress; see listings.go.
//
// The session leaves a silent server while there is still time to connect to another one
// that says it serves; see wire/silence.go and wire/dial.go. Requests that an overloaded
// server turns away wait longer each time; see wire/throttle.go. Each address of a host
// name is a server; see wire/hosts.go. If the servers require SASL, the exchange takes
// place before the client uses the connection; see wire/identity.go. An answer from an
// earlier connection counts as lost, unless [recipes.Lasts] says that it stays true.
//
// A free lock costs one round trip, and so does a handoff in a queue of any length,
// because requests write and read a few bytes in the lock's directory; see
// [recipes.DirectoryBook], directory.go, claim.go and release.go. What the client writes
// while data are being sent is then sent together (package wire).
//
// A session that keeps locking new paths creates directories faster than servers remove
// them. It deletes those that it created and no longer uses, with the lowest priority;
// see [recipes.Leftovers] and leftovers.go.
//
// # The nodes of a lock
//
// Most locks are a directory with a node per contender; the text above is about them. For
// other kinds, a Seat has additional fields, and its methods handle the differences; see
// seat.go.
//
//   - A semaphore has two directories and a node for its size; see
//     semaphore.go.
//   - An unfair lock is a single node, whose name does not identify its owner; see
//     single.go and [owners].
//   - A multi-lock has a node in each of several directories; see multi.go.
//   - A reader can take its own writer's place in the queue; see seatrequest.go.
//   - A lock that reports crashes has a record next to its directory, which may have a
//     lock-delay; see record.go.
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
//   - The loop's decisions: seatrequest, queue, holders. A machine's request comes in
//     through admit in seatrequest, and its answer goes out through settle.
//   - Calls that callers wait for: call, transaction, look, observer; and Resize in
//     semaphore, Revoke in revocation.
//   - Unused directories: leftovers.
//   - The life of a session: client, identities; and Open and Close in session.
//
// # Goroutines
//
// All goroutines belong to the group that the session was opened with, or are awaited by
// one that does, or by a caller.
//
//   - One or two per request in progress, up to 64 for a request of a multi-lock.
//   - A few, now and then: probes, questions to other servers, look-ups of names.
//   - Up to 64 for reads of queues, and one for each node that an inspection reads.
//   - One for each observed election, and one for each watched queue.
//   - One for the loop, if its work would keep a caller too long.
//   - Per client: one that sends while there is a lot to send, one that waits for the
//     client's own goroutines to exit, and one that closes it.
//   - One for each holder of a Revoke, until it returns.
package session
