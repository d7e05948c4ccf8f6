// Command graceful stops as a service should when it is told to: it takes nothing
// new, finishes what it has begun, for as long as it may, and gives the lock back at
// once, so that the next instance need not wait for a session to end.
//
// It works through items under a lock until Ctrl-C or SIGTERM, as an orchestrator
// sends it. Then there are -drain for the item at hand. What is not through by then
// has its context cancelled, and a second signal ends the program on the spot. In each
// of these cases, the last one aside, nobody else holds the lock before the work has
// stopped, and the next instance has it a moment later.
//
//	go run ./examples/graceful                     on a server inside the program
//	go run ./examples/graceful -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/graceful -for 0              until Ctrl-C
//
// Without Ctrl-C it stops by itself after a few seconds, in the same way. The file to
// start from is service.go.
package main
