// Command transfer moves money between accounts, each of which has a lock of its own, and holds the locks of both accounts for
// it, or none.
//
// Several tellers, each with a session of its own, move money in all directions at once. Who takes one lock after
// the other comes to wait for somebody who does it the other way round; here both are asked for in one
// transaction, so nobody has to agree on an order. An account is a node with a balance in it, and a transfer is
// one transaction on both, which the servers execute only while the teller's nodes exist: a teller
// that was halted, or whose session has ended without its knowing, changes nothing. In the end
// the accounts are added up.
//
//	go run ./examples/transfer                     on a server inside the program
//	go run ./examples/transfer -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/transfer -for 0              until Ctrl-C
//
// The file to start from is bank.go.
package main
