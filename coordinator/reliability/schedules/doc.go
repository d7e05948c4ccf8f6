// Package schedules plays thousands of random schedules of faults to the whole library, in virtual time,
// and checks at every step what package coordinator promises.
//
// A schedule is made from a seed: two to four coordinators with timeouts and options of their own, each
// behind a network of package faultnet, one server of package zktest, up to three locks, and workers who
// acquire, hold, release, cancel, try, and give up in every way there is. Meanwhile frames are held, lost,
// and cut off, sessions are muted, stranded behind a follower without a leader, partitioned away or
// expired, and coordinators are closed and replaced. Then everything heals, and everybody has to get what
// he waits for. What is checked: about those who hold in holders.go (order, exclusion, leases,
// tokens), about each acquisition in acquisition.go and streams.go, about what is left in
// world.go.
//
// The seed says what kind of lock a schedule is about, too (recipe.go). A quarter of them are about a mutex, the others
// in equal parts about read/write locks, semaphores, unfair locks, a mutex that is entered again by whoever holds
// it, a cached mutex, and multi-locks among mutexes at the same paths (multi.go). Readers hold together and beside nobody else, writers alone; a writer goes on as a reader while others wait, and
// lets none of them in between; of permits there are never more out than there are, and each acquisition has all of its
// own or none (semaphore.go). Turns
// of a cached lock's node exclude each other, and go before a contender that is known for as often and as long as they may; idle nodes
// go by themselves, or with Close (cached.go). In some schedules all bear kazoo's names, and in a few only one does: it
// is refused, and that changes nothing for anybody else (kazoo.go). Whoever is asked for a lock back, as by
// Curator, goes on holding it; who is asked for it with a deadline, in half of the schedules of all but unfair locks, has lost it
// by then (revoke.go).
//
// In a third of the schedules of mutexes and read/write locks these tell of crashes, and some functions under a lock panic: whoever is
// told of no crash holds behind no one who has crashed for certain, and nobody is told of one who has released (crash.go).
//
// Most schedules allow no second holder at any instant. In some a session is ended by decree, or nodes are
// deleted by somebody else: there the holder concerned cannot know in time, and he alone is excused. In
// others nothing happens that a lease does not outlive, and there any loss is a failure.
//
// How it is run:
//
//	go test -count=1 ./coordinator/reliability/schedules            500 schedules, 300 with -race
//	ZKGRANT_FULL=1 go test ...                                      10,000 schedules
//	ZKGRANT_SCHEDULES=2000 go test ...                              another number
//	ZKGRANT_RECIPE="cached mutex" go test ...                       one kind of lock only
//	ZKGRANT_SEED=17 go test -run TestSchedules -count=20 -v ...     one schedule, with its trace
//	ZKGRANT_SOAK=1 go test -run TestSchedules -timeout 0 -v ...     fresh seeds until it is stopped
//
// A seed decides about everything but the order in which goroutines run that are ready at the same instant.
// So a failure prints its trace, and it may take a few runs of its seed until it comes again: that is what
// -count is for.
//
// The other two tests are not random, and share a stage (stage.go). That of orphans loses each frame of an acquisition and its
// release in turn, of each kind of lock, and of a writer that becomes a reader (stories.go, scene.go). That of loops has each frame
// of a few cycles, in which workers release and acquire again at once, meet with each of a list of mishaps (loops.go). Both play
// trials side by side, and without ZKGRANT_FULL a sample of them.
package schedules
