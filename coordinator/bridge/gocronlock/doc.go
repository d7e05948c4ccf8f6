// Package gocronlock is a distributed locker for the scheduler gocron: of several processes with the same jobs, one runs each of them.
//
// gocron gives the lock of a job back when the job is done. If that takes less time than the clocks of the processes are apart, a process
// with a clock that is behind finds the lock free, and runs the job again. So [Locker] keeps each lock for a minimum time after its grant. A
// process that dies gives its locks back with its session.
//
// The minimum must be longer than the clocks are apart and shorter than the interval of the job: a process that still has the lock skips
// the job as all others do. It does not help jobs whose intervals begin when their process starts (gocron.DurationJob without
// WithStartDateTime): use [github.com/zkgrant/zkgrant/coordinator/bridge.Elector] for these.
package gocronlock
