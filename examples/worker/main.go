// Command worker does one item after the other on one instance at a time, and stops as
// Kubernetes expects.
//
// SIGTERM ends the waiting at once. The instance that works begins no other item,
// finishes the one at hand within -drain, and gives the lock back; the next instance
// begins a moment later. A loss ends the item's context, and the instance queues up
// again. A second signal ends the process on the spot; then the lock is free when its
// session has expired.
//
// To make it yours, copy this folder and replace item. deployment.yaml has the Deployment
// and its probes, and worker_test.go tests the service in virtual time.
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

// item does the work of one item. ctx ends when the lock is lost, and when the time to
// drain is over. Whatever the item writes elsewhere carries the token, so that the store
// can refuse a past holder: ../fencedwriter has the SQL.
func item(ctx context.Context, token int64) error {
	select {
	case <-time.After(100 * time.Millisecond):
		log.Printf("an item is done, token %d", token)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worker does one item after the other while it holds the lock.
type worker struct {
	item         func(ctx context.Context, token int64) error
	every, drain time.Duration // from item to item; for the item at hand after SIGTERM
}

// run answers the probes and works until ctx ends, with or without a server. When it
// returns, no item is under way and no lock is held.
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

// work queues up for the lock until ctx ends, again after each loss. It returns other
// errors, as waiting cures none of them.
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

	// An item that has begun may outlive ctx for a while, but never the lock.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.drain, cancel) })()
	held := lock.Context(late)

	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	var next <-chan time.Time // never ready while the lock is not held
	for {
		select {
		case <-ctx.Done(): // SIGTERM, while it waits and while it holds
			return context.Cause(ctx)
		case grant := <-lock.Granted():
			log.Printf("has the lock, token %d", grant.Token)
			next = ticker.C
		case <-next:
			// Valid: the process may have been halted since the grant. Err: select takes
			// any channel that is ready.
			if lock.Valid() && ctx.Err() == nil {
				if err := w.item(held, lock.Grant().Token); err != nil {
					log.Printf("an item has failed: %v", err)
				}
			}
		case <-lock.Lost():
			next = nil // from here on another instance may work
		case <-lock.Done():
			return lock.Err()
		}
	}
}

// probes answers Kubernetes. An instance that waits for the lock is ready. If it were
// not, a rolling update would never end: the new instance waits for the old one's lock.
// An instance without ZooKeeper is alive: a restart would not bring ZooKeeper back.
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
