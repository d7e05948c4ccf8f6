// Command readerswriter shares a table of prices between readers, who read it
// together, and writers, who change it alone.
//
// The readers come and go; when the writer asks, whoever reads is waited for, and
// whoever comes later waits for the writer: neither side can keep the other out for
// good. When the writer has written it becomes a reader and looks at its own work
// together with the others, and no other writer has come in between: it asks for the
// read lock with the context of the write lock, and then releases the write lock.
//
// An editor does it the other way round: it reads among the readers, decides whether there is something to be written,
// releases the read lock, and only then asks for the write lock. Another writer may have come in between, so it looks again
// before it writes.
//
//	go run ./examples/readerswriter                     on a server inside the program
//	go run ./examples/readerswriter -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/readerswriter -for 0              until Ctrl-C
//
// Every one of them checks that nobody changes what it reads while it reads. The file
// to start from is people.go.
package main
