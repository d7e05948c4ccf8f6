// Command tasks shares out tasks among workers: each task is done by whoever claims it
// first, and done again by somebody else if that one dies over it.
//
// A claim is an unfair lock that nobody waits for: one node per task, made with Try.
// Who comes too late learns who was quicker, and goes on to the next task. When a
// worker dies, its claims go with its session, and the task, which is not marked as
// done, is found by the next one who looks.
//
//	go run ./examples/tasks                     on a server inside the program
//	go run ./examples/tasks -zk host:2181,...   on a real one, chroot and all
//
// Here one of the workers dies over its third task, without a word. At the end the
// program says how often each task was begun and done: once, and that one task was
// begun twice. "Done" is marked under the claim; a task that was done by somebody who
// died before he could say so is done again, as in every such system. The file to
// start from is worker.go.
package main
