// Package interop only has tests. They show which contenders of zkgrant and other
// libraries can share a queue: at the same path on the same real server, with each
// contender run by its own library.
//
//	make interop                                     # fetches the libraries, runs all
//	cd bench && go test ./interop                    # needs no other library
//	ZKGRANT_REAL=1 go test ./interop                 # one scene of each kind
//	ZKGRANT_FULL=1 ZKGRANT_REAL=1 go test ./interop  # everything
//	make neighbours                                  # other versions of the libraries
//
// A missing library is a failure.
//
// # Players
//
// A player is a process of one family: Curator or ZooKeeper's own WriteLock on Java,
// kazoo on Python, go-zookeeper or zkgrant in the test binary. It runs contenders, each
// with its own session, thread and lock object. A player only carries out orders:
// connect, acquire, release, close. Orders and answers are lines (player_test.go). The
// tests decide which contender does what, and when.
//
// # Plays
//
//   - TestOneQueue and TestOneQueueWithGuests: families that see each other share a path.
//   - TestWaitingBehind: zkgrant shares a path with a family that does not see it. No
//     zkgrant contender may enter while an older one of that family holds. The test fails
//     unless the referee has seen one of that family beside a holder, so the plays can
//     fail.
//   - TestNeighbours: zkgrant and one library, in the version in CURATOR_HOME or
//     KAZOO_HOME, share a queue, each pair in both orders. It runs if ZKGRANT_NEIGHBOUR
//     names the library.
//   - TestMatrix: every form requests a lock that any other form holds. The outcomes must
//     be those in MATRIX.md.
//   - TestTheReferee tests the referee itself with allowed entries and each violation. It
//     needs no other library and no Java.
//
// The other tests play one scene each.
//
// # The referee
//
// The referee is in the test, outside of all locks. It records an entry when a contender
// has reported that it acquired its lock, and a departure before it orders that contender
// to release. So two contenders that are inside at once have really held the lock at
// once, however long the lines took. An overlap can be missed by a moment, but not in the
// long run: a contender that enters too early finds another one inside that is waiting
// for its order.
//
// At each entry the referee looks up the contender's node by its session. The zxid that
// created the node defines the order. An entry with a smaller zxid than an earlier one is
// an inversion, unless both are readers. Permits of a semaphore are counted, not ordered.
//
// A holder killed by SIGKILL counts as inside until its node is gone, which the referee
// checks at each entry.
package interop
