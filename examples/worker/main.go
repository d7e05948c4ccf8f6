// Command worker works on one instance at a time, and shuts down as Kubernetes expects.
//
// On SIGTERM, a waiting instance stops at once. A working one finishes its item within
// -drain and releases the lock. After a second signal the lock is free once the session
// expires. If the lock is lost, the item's context ends, and the instance queues again.
//
// To use it, copy this folder and replace item. deployment.yaml has the Deployment and
// its probes. worker_test.go tests the service in virtual time.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// lockPath is relative to the chroot that -zk names.
const lockPath = "/locks/worker"

// sessionTimeout is how long the others wait if this process dies.
const sessionTimeout = 10 * time.Second

func main() {
	servers := flag.String("zk", "localhost:2181", "ZooKeeper's `servers`, as host:port,host:port/chroot")
	address := flag.String("http", ":8080", "the `address` of the probes")
	drain := flag.Duration("drain", 20*time.Second, "how long the item at hand may go on after SIGTERM")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal is not caught
	w := &worker{item: item, every: time.Second, drain: *drain}
	if err := w.run(ctx, *servers, *address); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

// item processes one item. ctx ends when the lock is lost, or -drain after SIGTERM. Pass
// the token with each write, so that the store can refuse a past holder: ../fencedwriter
// has the SQL.
func item(ctx context.Context, token int64) error {
	select {
	case <-time.After(100 * time.Millisecond):
		log.Printf("an item is done, token %d", token)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worker processes items one by one while it holds the lock.
type worker struct {
	item         func(ctx context.Context, token int64) error
	every, drain time.Duration // between items; for the current item after SIGTERM
}

// run answers the probes and works until ctx ends, even while no server is reachable.
// When it returns, no item is in progress and no lock is held.
func (w *worker) run(ctx context.Context, servers, address string) error {
	c, err := coordinator.Open(servers, coordinator.WithSessionTimeout(sessionTimeout)) // add WithAuth or WithTLS here
	if err != nil {
		return err
	}
	defer c.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: probes(c), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	return w.work(ctx, c)
}

// work queues up for the lock until ctx ends, again after each loss. Other errors end it.
func (w *worker) work(ctx context.Context, c *coordinator.Coordinator) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if err := c.Ready(ctx); err != nil { // the servers refuse our credentials, or ctx has ended
			end(err)
		}
	}()
	for {
		err := w.hold(ctx, c)
		var lost *coordinator.LostError
		if ctx.Err() != nil || !errors.As(err, &lost) {
			return err
		}
		log.Printf("LOST the lock: %v", lost.Reason)
	}
}

// hold waits for the lock and works until it is lost or ctx ends.
func (w *worker) hold(ctx context.Context, c *coordinator.Coordinator) error {
	lock := c.Mutex(lockPath).Acquire(ctx) // returns at once
	defer lock.Release()                   // after the last item

	// An item in progress may outlive ctx by w.drain, but never the lock.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.drain, cancel) })()
	held := lock.Context(late)

	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	var next <-chan time.Time // never ready while the lock is not held
	for {
		select {
		case <-ctx.Done(): // SIGTERM, whether it waits or holds
			return context.Cause(ctx)
		case grant := <-lock.Granted():
			log.Printf("has the lock, token %d", grant.Token)
			next = ticker.C
		case <-next:
			// The process may have been paused, and select picks any ready channel.
			if lock.Valid() && ctx.Err() == nil {
				if err := w.item(held, lock.Grant().Token); err != nil {
					log.Printf("an item has failed: %v", err)
				}
			}
		case <-lock.Lost():
			next = nil // from now on another instance may work
		case <-lock.Done():
			return lock.Err()
		}
	}
}

// probes serves Kubernetes' probes. A waiting instance is ready, or a rolling update
// would never finish. Without ZooKeeper it is alive, since a restart would not help.
func probes(c *coordinator.Coordinator) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if c.State() != coordinator.StateConnected {
			http.Error(rw, "no connection to ZooKeeper", http.StatusServiceUnavailable)
		}
	})
	return mux
}
