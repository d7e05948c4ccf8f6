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
	keyCached  = "zkgrant-cached" // zkgrant with cached mutexes
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
	API  string `json:"api"`  // the API that is measured

	crowd int // the longest queue to measure
}

// libraries returns all libraries, in the order of the tables. A queue of ten thousand is
// skipped where it takes minutes to build, because each waiter is a thread with its own
// stack or has its own lease (etcd), and for the bare client, which has no queue.
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

// cachedLibraries returns zkgrant with cached locks, and the libraries to compare it
// with.
func cachedLibraries() []library {
	return append([]library{{Key: keyCached, Name: "zkgrant, cached", API: "Mutex, Cached"}},
		slices.DeleteFunc(libraries(), func(l library) bool { return l.Key == keyBare })...)
}

const (
	// sessionTimeout is long, so that pings and probes hardly ever disturb a measurement.
	sessionTimeout = 30 * time.Second
	// serverTick is ZooKeeper's default.
	serverTick = 2 * time.Second
)

// client is a connection of one of the Go libraries, with a session.
type client interface {
	// lock returns a mutex at the path, for use in a loop by one goroutine.
	lock(path string) (mutex, error)
	// contender returns a mutex that may share its path with others of the same client.
	contender(path string) (mutex, error)
	// close ends the session. Waiting contenders return an error.
	close() error
}

// versatile is a client that offers other kinds of lock.
type versatile interface {
	// other returns a lock that may share its path with others of the same client, or
	// errNotOffered.
	other(u use, path string) (mutex, error)
}

// mutex is a lock of one of the Go libraries.
type mutex interface {
	acquire(ctx context.Context) error
	// release returns when the library's own release returns.
	release() error
}

// awaiter is a mutex whose release returns before the node is gone.
type awaiter interface {
	// await returns once the last released node is gone.
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

// errNotOffered is the answer to a question that does not apply to a library.
var errNotOffered = errors.New("not offered by this library")
