// Package interop has only tests. They show that contenders of zkgrant and of other libraries can stand in one queue:
// on the same path of the same real server, each of them run by the library itself.
//
//	make interop                                    # fetches the other libraries, and runs everything
//	cd bench && go test ./interop                   # what needs no other library
//	ZKGRANT_REAL=1 go test ./interop                # one workload and one scene of a kind
//	ZKGRANT_FULL=1 ZKGRANT_REAL=1 go test ./interop # everything
//
// A library that is missing is a failure.
//
// # Who plays
//
// A player is a process of one family: Curator or ZooKeeper's own WriteLock on Java, kazoo on Python, go-zookeeper or
// zkgrant in the test binary run again. It hosts contenders, each with a session, a thread and a lock object of its
// own, and is told what to do, and tells what happens, in lines (words_test.go).
//
// # What is played
//
// TestOneQueue and TestOneQueueWithGuests have families share a path that see each other. TestWaitingBehind has zkgrant
// share one with those who do not see it, and counts who comes in beside an older one of them. TestMatrix has everybody
// come to a lock that anybody else holds; what comes of it is in verdicts_test.go, and for people to read in MATRIX.md,
// which TestPage keeps. The others play one scene each. TestAContenderThatDoesNotWaitIsSeen needs no other library and no Java,
// and shows that the rest can fail.
//
// # Who judges
//
// The referee is in the test, outside of all locks. A contender that has acquired its lock says so and waits to be let
// in; before it releases it says so, too, and waits until that is noted. So an entry is noted behind its acquisition
// and a departure ahead of its release: two who are inside at once have held the lock at once, however long the lines
// took. The other way round it may overlook a moment, but not in the long run: whoever comes too early finds somebody
// inside who waits for an answer.
//
// For each entry the referee looks for the node at the server by its owner, the contender's session. The zxid that
// created it says who came first. An entry whose zxid is smaller than an earlier one's is an inversion, unless both
// read. Permits of a semaphore are counted, and not put in an order.
//
// A holder that is killed, its process by SIGKILL, counts as inside until its node is gone. That is asked of the server
// at each entry.
package interop
