// Command fragments runs one code block of a page, named by its argument. The test adds a
// file for each block, and a table of the blocks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
)

// servers replaces the servers that a block names.
var servers = os.Getenv("ZKGRANT_SERVERS")

func main() {
	if err := run(fragments()[os.Args[1]]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(fragment func(context.Context, *coordinator.Coordinator) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := coordinator.Connect(ctx, servers)
	if err != nil {
		return err
	}
	return errors.Join(fragment(ctx, c), c.Close())
}

// The names that blocks may use.
var (
	data   = []byte("host-7")
	hosts  = []string{servers}
	job    = &worker{done: make(chan struct{})}
	logger = zap.NewNop()
	old    = etcdMutex{}
	said   sync.Once
	tenant = "acme/eu"
)

// work is the work under a lock. It prints "held" and lasts until its context ends.
// Without a context it returns at once.
func work(args ...any) error {
	said.Do(func() { fmt.Println("held") })
	for _, arg := range args {
		if ctx, ok := arg.(context.Context); ok {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	return nil
}

func check(args ...any) error   { return work(args...) }
func export(args ...any) error  { return work(args...) }
func rebuild(args ...any) error { return work(args...) }
func report(args ...any) error  { return work(args...) }
func send(args ...any) error    { return work(args...) }
func sweep(args ...any) error   { return work(args...) }

func change(context.Context) error { return nil }

func startJob(_ string, token int64) *worker {
	job.Start(token)
	return job
}

func printf(string, ...any) {}
func total() []byte         { return []byte("1") }

// etcdMutex has the methods of etcd's concurrency.Mutex. It is always free.
type etcdMutex struct{}

func (etcdMutex) Lock(context.Context) error   { return nil }
func (etcdMutex) Unlock(context.Context) error { return nil }

// worker is work that lasts until it is stopped. It never finishes by itself.
type worker struct{ done chan struct{} }

func (w *worker) Cancel() {}

func (w *worker) Wait() {}

func (w *worker) Start(token int64)     { _ = work(token) }
func (w *worker) Stop()                 {}
func (w *worker) Done() <-chan struct{} { return w.done }
