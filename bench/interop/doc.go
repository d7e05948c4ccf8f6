// Package interop only has tests. They show which contenders of zkgrant and of other
// libraries can share a queue: on the same path of the same real server, each contender
// run by its own library.
//
//	make interop                                    # fetches the other libraries, and runs everything
//	cd bench && go test ./interop                   # what needs no other library
//	ZKGRANT_REAL=1 go test ./interop                # one workload, and one scene of each kind
//	ZKGRANT_FULL=1 ZKGRANT_REAL=1 go test ./interop # everything
//	make neighbours                                 # other versions of the libraries and of ZooKeeper
//
// A missing library is a failure.
//
// # Players
//
// A player is a process of one family: Curator or ZooKeeper's own WriteLock on Java,
// kazoo on Python, go-zookeeper or zkgrant in the test binary. It runs contenders, each
// with its own session, thread and lock object. A player only obeys: connect, acquire,
// release, close. Its commands and answers are lines (player_test.go). The tests decide
// which contender does what, and when.
//
// # Plays
//
//   - TestOneQueue and TestOneQueueWithGuests: families that see each other share a path.
//   - TestWaitingBehind: zkgrant shares a path with a family that does not see it. No
//     contender of zkgrant may enter beside an older one of that family. The test fails
//     unless the referee has seen one of that family beside a holder, so the plays can
//     fail.
//   - TestNeighbours: one library, in the version that CURATOR_HOME or KAZOO_HOME holds,
//     and zkgrant in one queue, each pair in both orders. It runs if ZKGRANT_NEIGHBOUR
//     names the library.
//   - TestMatrix: every form requests a lock that any other form holds. The outcomes are
//     those in MATRIX.md.
//   - TestTheReferee shows the referee alone what is allowed, and each violation. It
//     needs no other library and no Java.
//
// The other tests play one scene each.
//
// # The referee
//
// The referee is in the test, outside of all locks. It notes an entry when a contender
// has reported that it has acquired its lock, and a departure before it sends that
// contender the command to release. Two contenders that are inside together have held the
// lock together, however long the lines took. The reverse may be missed for a moment, but
// not in the long run: a contender that enters too early finds another one inside that
// waits for its command.
//
// At each entry the referee looks up the node at the server by its owner, the contender's
// session. The zxid that created it gives the order. An entry with a smaller zxid than an
// earlier entry is an inversion, unless both read. Permits of a semaphore are counted,
// not ordered.
//
// A holder whose process is killed by SIGKILL counts as inside until its node is gone.
// The referee checks that at the server at each entry.
package interop
