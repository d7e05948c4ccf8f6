// Package schedules plays thousands of random schedules of faults to the whole library, in virtual time,
// and checks at every step what package coordinator promises.
//
// A schedule is made from a seed: two to four coordinators with timeouts and options of their own, each
// behind a network of package faultnet, one server of package zktest, up to three locks, and workers who
// acquire, hold, release, cancel, try, and give up in every way there is. Meanwhile frames are held, lost,
// and cut off, sessions are muted, stranded behind a follower without a leader, partitioned away or
// expired, and coordinators are closed and replaced. Then everything heals, and everybody has to get what
// he waits for. What is checked: about those who hold in holders_test.go (order, exclusion, leases,
// tokens), about each acquisition in acquisition_test.go and streams_test.go, about what is left in
// world_test.go.
//
// Most schedules allow no second holder at any instant. In some a session is ended by decree, or nodes are
// deleted by somebody else: there the holder concerned cannot know in time, and he alone is excused. In
// others nothing happens that a lease does not outlive, and there any loss is a failure.
//
// How it is run:
//
//	go test -count=1 ./coordinator/reliability/schedules            10,000 schedules, a few hundred with -race
//	ZKGRANT_SCHEDULES=500 go test ...                               another number
//	ZKGRANT_SEED=17 go test -run TestSchedules -count=20 -v ...     one schedule, with its trace
//	ZKGRANT_SOAK=1 go test -run TestSchedules -timeout 0 -v ...     fresh seeds until it is stopped
//
// A seed decides about everything but the order in which goroutines run that are ready at the same instant.
// So a failure prints its trace, and it may take a few runs of its seed until it comes again: that is what
// -count is for.
//
// The other two tests are not random. That of orphans loses each frame of an acquisition and its release in
// turn; that of loops has each frame of a few cycles, in which workers release and acquire again at once,
// meet with each of a list of mishaps.
package schedules
