// Command fencedwriter shows why a lock is not enough where the state is elsewhere,
// and what is: a store that refuses old tokens.
//
// Ann reads a balance under the lock, thinks, and is about to write a new one. Then
// she is halted, and hears of nothing. Her session ends, bob is granted the lock, and
// writes. Ann wakes up, and writes what she had in mind. She has not looked at her
// lock again; and had she looked, she might have been halted right behind that look.
// No lock of any kind can hold this write back. The store can: it has seen a greater
// token than the one that comes with the write.
//
//	go run ./examples/fencedwriter                     on a server inside the program
//	go run ./examples/fencedwriter -zk host:2181,...   on a real one, chroot and all
//
// All of it happens to two stores, one that compares tokens and one that does not.
// It takes as long as it takes the servers to end a session, -timeout and a little
// more. The file to start from is store.go, which has the SQL for PostgreSQL, too.
// State that is kept in ZooKeeper itself needs none of this, but Acquisition.Txn.
package main
