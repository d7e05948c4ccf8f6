// Command eventloop holds hundreds of locks from one goroutine with one select,
// as a service does that cannot block: everything that happens to any lock comes
// out of one channel, Coordinator.Events.
//
// Two coordinators compete for the same 500 locks. Each wants to hold each of them
// once for a moment. There is no goroutine per lock, and none waits for one.
//
//	go run ./examples/eventloop                     on a server inside the program
//	go run ./examples/eventloop -zk host:2181,...   on a real one, chroot and all
//
// The file to start from is loop.go. The exit code is 0, 1 if something went
// wrong, or 130 after Ctrl-C, which may come at any time and leaves no node.
package main
