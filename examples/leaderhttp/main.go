package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("leaderhttp", stderr)
	p.For(3 * time.Second)
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk)
	})
}

// run has three instances serve until ctx ends, the first leader for a second only,
// and a customer who orders.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("three instances, of which one leads, on %v", zk)
	all, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	var (
		crew      sync.WaitGroup
		addresses []string
		lives     = map[string]context.CancelFunc{}
	)
	defer crew.Wait()
	defer abort(nil)
	for range 3 {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		address := listener.Addr().String()
		life, end := context.WithCancel(all)
		addresses, lives[address] = append(addresses, address), end
		crew.Go(func() {
			if err := instance(life, say, listener, zk); err != nil && life.Err() == nil {
				abort(fmt.Errorf("%s: %w", address, err))
			}
		})
	}
	customer(all, say, addresses, func(leader string) { lives[leader]() })
	<-all.Done()
	crew.Wait()
	return context.Cause(all)
}

// instance is one process of the service, as it were: it takes part, and serves,
// until ctx ends.
func instance(ctx context.Context, say func(string, ...any), listener net.Listener, zk *program.ZooKeeper) error {
	defer listener.Close()
	address := listener.Addr().String()
	c, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Close(); err != nil { // the servers will end the session by themselves
			say("%s  %v", address, err)
		}
	}()
	s := &service{address: address, election: c.Election(leaderPath), think: 20 * time.Millisecond, say: func(format string, args ...any) {
		say("%s  %s", address, fmt.Sprintf(format, args...))
	}}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	// An orderly end: what is under way is finished while this instance leads, and
	// only then somebody else may.
	member, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	defer context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			s.say("requests are cut short: %v", err)
		}
		resign()
	})()
	err = errors.Join(s.run(member), server.Close())
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	s.say("is gone")
	return err
}
