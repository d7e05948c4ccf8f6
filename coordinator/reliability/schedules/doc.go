// Package schedules plays thousands of random schedules of faults to the whole library,
// in virtual time, and checks at every step what package coordinator promises.
//
// A schedule is made from a seed: two to four coordinators with timeouts and options of
// their own, each behind a network of package faultnet, one server of package zktest, up
// to three locks, and workers that acquire, hold, release, cancel, try, and give up in
// every way. Meanwhile frames are held, lost, and cut off, sessions are muted, stranded
// behind a follower without a leader, partitioned away or expired, and coordinators are
// closed and replaced. Then everything heals, and every worker has to get the lock that
// it waits for. The checks are in holders.go (the holders: order, exclusion, leases,
// tokens), in acquisition.go and streams.go (each acquisition), and in world.go (what is
// left).
//
// The seed also decides the kind of lock (recipe.go). A quarter of the schedules are
// about a mutex. The others are, in equal parts, about read/write locks, semaphores,
// unfair locks, a mutex that its holder enters again, a cached mutex, and multi-locks
// among mutexes at the same paths (multi.go):
//
//   - Readers hold together and beside no writer; a writer holds alone. A writer becomes
//     a reader while others wait, and none of them comes in between.
//   - No more permits are out than the size, and each acquisition has all of its permits
//     or none (semaphore.go).
//   - Turns of a cached lock's node exclude each other. They go before a known contender
//     as often and as long as they may. Idle nodes go by themselves, or with Close
//     (cached.go).
//   - In some schedules every client uses kazoo's names. In a few one client does: it is
//     refused, and that changes nothing for the others (kazoo.go).
//   - A holder that is asked for its lock as by Curator goes on holding it. In half of
//     the schedules, except those of unfair locks and multi-locks, holders are asked with
//     a deadline, and have lost the lock by then, and when Revoke returns (revoke.go).
//   - In a third of the schedules of mutexes and read/write locks these report crashes,
//     and some functions under a lock panic. If a holder is told of no crash, the holder
//     before it has not certainly crashed. A holder is told of the first crash since the
//     last release, and of no holder that has released (crash.go).
//
// Most schedules allow no second holder at any instant. In some a session is ended by
// decree, or nodes are deleted by another client: there the holder concerned cannot know
// in time, and it alone is excused. In others every fault is one that a lease outlives,
// and there any loss is a failure.
//
// How it is run:
//
//	go test -count=1 ./coordinator/reliability/schedules            500 schedules, 100 with -race
//	ZKGRANT_FULL=1 go test ...                                      10,000 schedules
//	ZKGRANT_SCHEDULES=2000 go test ...                              another number
//	ZKGRANT_RECIPE="cached mutex" go test ...                       one kind of lock only
//	ZKGRANT_SEED=17 go test -run TestSchedules -count=20 -v ...     one schedule, with its trace
//	ZKGRANT_SOAK=1 go test -run TestSchedules -timeout 0 -v ...     fresh seeds until it is stopped
//
// A seed decides everything but the order of goroutines that are ready at the same
// instant. So a failure prints its trace, and may take a few runs of its seed to come
// again: -count is for that.
//
// The other test is not random. Workers acquire and release a lock of each kind, alone
// and beside others, and each frame of a few cycles meets with each of a list of mishaps
// (frames.go). Without ZKGRANT_FULL it plays a sample.
package schedules
