// Command twolocks waits for two locks in one select, works under each as it comes,
// and ends with both given back.
//
// It is a service that keeps two jobs running, each on one instance at a time. Both
// locks are asked for at once, and whichever is granted first has its job started
// first: neither waits for the other, and there is no goroutine that waits for
// either. A second instance does the same beside it; after two seconds the first one
// shuts down, and the second takes over what it had.
//
//	go run ./examples/twolocks                     on a server inside the program
//	go run ./examples/twolocks -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/twolocks -for 0              until Ctrl-C
//
// The file to start from is service.go. (To hold two locks at the same time, or none
// of them, is something else: see examples/transfer.)
package main
