// Package schedules plays thousands of random schedules of faults with the whole library,
// in virtual time, and checks the promises of package coordinator at every step.
//
// A schedule is made from a seed: two to four coordinators with their own timeouts and
// options, each behind a network of package faultnet, one server of package zktest, up to
// three locks, and workers that acquire, hold, release, cancel, try, and give up in every
// way. Meanwhile frames are held, lost or cut off, sessions are muted, stranded on a
// follower without a leader, partitioned or expired, and coordinators are closed and
// replaced. Then everything heals, and every worker must get the lock that it waits for.
// The checks are in holders.go (the holders: order, exclusion, leases, tokens), in
// acquisition.go and streams.go (each acquisition), and in world.go (what is left).
//
// The seed also decides the kind of lock (recipe.go). A quarter of the schedules use a
// mutex. The others use, in equal parts, read/write locks, semaphores, unfair locks, a
// mutex that its holder reenters, a cached mutex, and multi-locks among mutexes at the
// same paths (multi.go):
//
//   - Readers hold together and beside no writer; a writer holds alone. A writer becomes
//     a reader while others wait, and none of them gets in between.
//   - No more permits are taken than the size, and each acquisition has all of its
//     permits or none (semaphore.go).
//   - Turns of a cached lock's node exclude each other. They precede a known contender
//     only as often and as long as is allowed. Idle nodes are deleted after a while, or
//     by Close (cached.go).
//   - In some schedules every client uses kazoo's names. In a few, one client does: it is
//     refused, and that changes nothing for the others (kazoo.go).
//   - A holder that finds a revocation request of Curator's keeps holding. In half of the
//     schedules, except those of unfair locks and multi-locks, locks are revoked with a
//     deadline: holders have lost the lock by then, and when Revoke returns (revoke.go).
//   - A third of the schedules of mutexes and read/write locks detect crashes, and some
//     functions under a lock panic. If a Grant reports no crash, the holder before it has
//     not certainly crashed. A Grant reports the first crash since the last release, and
//     never a holder that has released (crash.go).
//
// Most schedules allow no second holder at any instant. In some, a session is ended by
// decree, or nodes are deleted by another client: then the affected holder cannot know in
// time, and it alone is excused. In others, a lease outlives every fault, and any loss is
// a failure.
//
// How to run it:
//
//	go test -count=1 ./coordinator/reliability/schedules
//	        plays 500 schedules, 100 with -race
//	ZKGRANT_FULL=1 go test ...
//	        10,000 schedules
//	ZKGRANT_SCHEDULES=2000 go test ...
//	        another number
//	ZKGRANT_RECIPE="cached mutex" go test ...
//	        one kind of lock only
//	ZKGRANT_SEED=17 go test -run TestSchedules -count=20 -v ...
//	        one schedule, with its trace
//	ZKGRANT_SOAK=1 go test -run TestSchedules -timeout 0 -v ...
//	        fresh seeds until it is stopped
//
// A seed decides everything but the order of goroutines that are ready at the same
// instant. So a failure prints its trace, and may take a few runs of its seed to recur:
// -count is for that.
//
// The other test is not random. Workers acquire and release a lock of each kind, alone
// and beside others, and each frame of a few cycles meets each mishap of a list
// (frames.go). Without ZKGRANT_FULL it plays a sample.
package schedules
