package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

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
