// Command quickstart shows what a lock of package coordinator does: five
// contenders queue for it and work under it one after the other, in the order in
// which they came, each with a greater fencing token. While the third of them
// works, its ZooKeeper session is ended by somebody else: it hears of the loss and
// stops, the next contender is granted the lock, and the third queues again in a
// new session.
//
//	go run ./examples/quickstart                     on a server inside the program
//	go run ./examples/quickstart -zk host:2181,...   on a real one, chroot and all
//
// What it prints as it goes is what happened; at the end it checks that nobody
// was overtaken, that nobody worked beside a holder whose lock was valid, that the
// tokens grew and that no node is left. The exit code is 0 if all of that holds, 1
// if not, and 130 after Ctrl-C, which may come at any time.
//
// The file to read is contender.go, of fifty lines. The others are the show: what a contender plays is in role.go.
package main
