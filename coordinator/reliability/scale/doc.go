// Package scale measures many locks in one process: what each of them costs while it is
// held.
//
// The server runs in its own process, so that only the client is measured: the library
// including the ZooKeeper client, and for each lock a handle, an acquisition and the
// channels that a select needs. Counts are asserted: bytes of heap, goroutines and
// watches.
//
//	go test -v ./coordinator/reliability/scale
package scale
