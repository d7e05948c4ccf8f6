// Package faults breaks real servers, and the connections to them, and checks the
// promises of package coordinator meanwhile.
//
// Servers are killed, halted and restarted; connections fall silent in one direction or
// both, for less and for more than the session timeout; one server of three falls silent;
// a follower loses its leader and keeps answering; an observer does the same, or follows
// a deposed leader; a server is in read-only mode; servers accept connections without
// answering, or are slow; they are replaced by others, or restored from a backup. In most
// trials, one session holds a lock that another one waits for, and a referee checks that
//
//   - no holder is still valid when the next one reads its Grant,
//   - Lost has been delivered by then, and before the server deletes the node,
//   - fencing tokens grow,
//   - and every contender gets the lock in the end: the waiters, and the holders that
//     lost it.
//
// That is asserted. Durations are only reported, see
// [github.com/zkgrant/zkgrant/coordinator/reliability].
//
//	make deps
//	ZKGRANT_REAL=1 go test -race ./coordinator/reliability/faults
//	        plays some trials of each kind, in less than a minute
//	ZKGRANT_REAL=1 ZKGRANT_RELIABILITY=1 go test -v ./coordinator/reliability/faults
//	        plays all of them, in some minutes
package faults
