// Package scale looks at many locks in one process: what each of them costs while it is
// held.
//
// The server is a process of its own, so that only the client is measured: the library
// with the ZooKeeper client in it, and each lock with a handle, an acquisition and the
// channels that a select needs. Counts are asserted: bytes of heap, goroutines and
// watches.
//
//	go test -v ./coordinator/reliability/scale
package scale
