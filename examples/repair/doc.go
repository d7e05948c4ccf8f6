// Command repair changes two nodes that belong together, and must not be seen half changed, in ZooKeeper itself, where one
// transaction would do it if they were not so many, or if one of them were not elsewhere. Whoever dies between the two
// changes leaves them as they are: his lock goes with his session, and the next one would take what it finds
// for whole.
//
// The lock tells of crashes (coordinator.DetectCrash): the Grant says that somebody has held it who never released. The next
// writer repairs what is half done, before it does anything else. Readers are guarded twice: while they hold the read
// lock nobody writes, and if its Grant tells of a crash, or the node `ready` is not there, they leave the two alone.
//
//	go run ./examples/repair                     on a server inside the program
//	go run ./examples/repair -zk host:2181,...   on a real one, chroot and all
//
// Here every third writer dies over its change, by a panic or by losing its connection for good. At the end the program says how
// often somebody has died, and how often there was something to repair; it ends with an error if a reader has
// seen one node of the old and one of the new version. The file to start from is writer.go.
package main
