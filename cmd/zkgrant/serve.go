package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	silence  = 10 * time.Second // that a client is granted before it has asked
	farewell = 2 * time.Second  // that requests are granted which have begun
)

// serve serves until ctx ends, and ends with the listener closed.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: silence}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) { // a request waits for ZooKeeper
		err = server.Close()
	}
	if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}
