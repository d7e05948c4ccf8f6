// Command limiter lets no more than so many jobs run at a time, in all instances of a
// service together.
//
// Three instances have jobs to do, small ones that take one permit of a semaphore, and
// big ones that take three at once. Whoever comes first is let in first, so the big
// ones are not kept out by the small ones, and two of them never hold a part of what
// they need each. Half-way the number of permits is raised, which lets those in who
// have been waiting for it.
//
//	go run ./examples/limiter                     on a server inside the program
//	go run ./examples/limiter -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/limiter -for 0              until Ctrl-C; the limit stays
//
// The program counts how many permits are in use, and fails if they are ever more than
// there are. The file to start from is worker.go.
package main
