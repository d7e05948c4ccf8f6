// Package gocronlock provides a distributed locker for the scheduler gocron: of several
// processes with the same jobs, one runs each job.
//
// gocron releases a job's lock when the job is done. If the job takes less time than the
// difference between the processes' clocks, a process whose clock is late finds the lock
// free and runs the job again. So Locker keeps each lock for a minimum time after its
// grant. If a process dies, its locks are released with its session.
//
// The minimum must be longer than the difference between the clocks and shorter than the
// job's interval: a process that still holds the lock skips the job, like every other
// one. It does not help jobs whose intervals begin when their process starts
// (gocron.DurationJob without WithStartDateTime): for these, use
// [github.com/zkgrant/zkgrant/coordinator/bridge.Elector].
package gocronlock
