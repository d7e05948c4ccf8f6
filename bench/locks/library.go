package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The keys of the libraries, on the command line and in the file of results.
const (
	keyOurs    = "zkgrant"
	keyCached  = "zkgrant-cached" // zkgrant again, with cached mutexes
	keyStock   = "go-zookeeper"
	keyCurator = "curator"
	keyKazoo   = "kazoo"
	keyEtcd    = "etcd"
	keyBare    = "bare"
)

// library is one of the compared libraries.
type library struct {
	Key  string `json:"key"`
	Name string `json:"name"` // in tables and plots
	API  string `json:"api"`  // what is used of the library

	crowd int // the longest queue of contenders in one process
}

// libraries are all libraries, in the order of the tables. If each waiter is a thread
// with its own stack, or has its own lease (etcd), a queue of ten thousand takes minutes
// to build, and is left out. It is also left out for the bare client, which knows no
// queue.
func libraries() []library {
	return []library{
		{Key: keyOurs, Name: "zkgrant", API: "Mutex", crowd: 10_000},
		{Key: keyStock, Name: "go-zookeeper", API: "zk.Lock", crowd: 10_000},
		{Key: keyCurator, Name: "Curator", API: "InterProcessMutex", crowd: 1000},
		{Key: keyKazoo, Name: "kazoo", API: "Lock", crowd: 1000},
		{Key: keyEtcd, Name: "etcd", API: "concurrency.Mutex", crowd: 1000},
		{Key: keyBare, Name: "bare client", API: "Multi and Delete of go-zookeeper, which is no lock", crowd: 1000},
	}
}

// cachedLibraries are zkgrant with cached locks, and the locks that these are compared
// with.
func cachedLibraries() []library {
	return append([]library{{Key: keyCached, Name: "zkgrant, cached", API: "Mutex, Cached"}},
		slices.DeleteFunc(libraries(), func(l library) bool { return l.Key == keyBare })...)
}

const (
	// sessionTimeout is long, so that a ping or a probe hardly ever falls into a
	// measurement.
	sessionTimeout = 30 * time.Second
	// serverTick is the default of ZooKeeper.
	serverTick = 2 * time.Second
)

// client is a connection of one of the Go libraries, with a session.
type client interface {
	// lock returns a mutex at the path, to be used in a loop by one goroutine.
	lock(path string) (mutex, error)
	// contender returns a mutex that may be at the same path as others of the same
	// client.
	contender(path string) (mutex, error)
	// close ends the session. Waiting contenders end with an error.
	close() error
}

// versatile is a client that has kinds of lock other than a mutex.
type versatile interface {
	// other returns a lock that may be at the same path as others of the same client, or
	// errNotOffered.
	other(u use, path string) (mutex, error)
}

// mutex is a lock of one of the Go libraries.
type mutex interface {
	acquire(ctx context.Context) error
	// release returns when the library lets its caller go on.
	release() error
}

// awaiter is a mutex whose release returns before the node is gone.
type awaiter interface {
	// await returns when the node of the last release is gone.
	await(ctx context.Context) error
}

func openGo(ctx context.Context, key, addr string, m *meter, c *chain) (client, error) {
	switch key {
	case keyOurs:
		return openOurs(ctx, addr, m, nil)
	case keyCached:
		return openOurs(ctx, addr, m, cached())
	case keyStock:
		return openStock(ctx, addr, m)
	case keyEtcd:
		return openEtcd(ctx, addr, m)
	case keyBare:
		s, err := openStock(ctx, addr, m)
		return bare{s, c}, err
	default:
		return nil, fmt.Errorf("no library %q in Go", key)
	}
}

// errNotOffered is the answer to a question that makes no sense for a library.
var errNotOffered = errors.New("not offered by this library")
