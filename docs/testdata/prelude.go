// Command fragments runs one block of a page: the one that its argument names. The test
// adds a file for each block, and the table of them.
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

// servers takes the place of what a block names as its servers.
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
	old    = sync.Locker(&sync.Mutex{})
	said   sync.Once
	tenant = "acme/eu"
)

// work is what is done under a lock. It says so, and goes on until its context ends;
// without one it is done at once.
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

// worker is work that goes on until it is stopped, and is never done.
type worker struct{ done chan struct{} }

func (w *worker) Cancel() {}

func (w *worker) Wait() {}

func (w *worker) Start(token int64)     { _ = work(token) }
func (w *worker) Stop()                 {}
func (w *worker) Done() <-chan struct{} { return w.done }
