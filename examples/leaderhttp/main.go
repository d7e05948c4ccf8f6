// Command leaderhttp is a web service with several instances; only the leader answers.
//
// All instances are candidates in one election, and publish their addresses there. The
// leader serves POST /orders. Any other instance answers 503, with the leader's address
// in the Leader header and in the body. A lost term cancels the context of each request,
// with the loss as the cause. The handler checks Valid before and after an order. Every
// instance answers GET /healthz, and shows the candidates at /board/.
//
// On SIGTERM the leader finishes the requests in progress, and then resigns. To use it,
// copy this folder and replace order. leaderhttp_test.go tests it in virtual time.
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/board"
)

// leaderPath is relative to the chroot that -zk names.
const leaderPath = "/service/leaderhttp"

func main() {
	servers := flag.String("zk", "localhost:2181", "ZooKeeper's `servers`, as host:port,host:port/chroot")
	listen := flag.String("http", ":8080", "the `address` to serve at")
	address := flag.String("address", "", "where the others reach this instance, as `host:port` (default: that of -http)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal is not caught
	if err := run(ctx, *servers, *listen, *address, order); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

// order processes one order. ctx ends with the term or the client's connection.
func order(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	return context.Cause(ctx) // nil unless ctx has ended
}

// run campaigns and serves until ctx ends, even while ZooKeeper is unreachable.
func run(ctx context.Context, servers, listen, address string, order func(context.Context) error) error {
	c, err := coordinator.Open(servers, coordinator.WithSessionTimeout(10*time.Second)) // add WithAuth or WithTLS here
	if err != nil {
		return err
	}
	defer c.Close()
	locks, err := board.New(c, leaderPath) // the leader and the candidates; put your authentication in front of it
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := &service{address: cmp.Or(address, listener.Addr().String()), election: c.Election(leaderPath), order: order}
	mux := s.handler()
	mux.Handle("/board/", http.StripPrefix("/board", locks))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	server.RegisterOnShutdown(locks.Close) // ends the open pages
	defer server.Close()

	// Finish the requests in progress before another instance may lead.
	member, resign := context.WithCancelCause(context.WithoutCancel(ctx))
	defer resign(nil)
	defer context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			log.Printf("requests are cut short: %v", err)
		}
		resign(context.Cause(ctx))
	})()
	go func() {
		if err := server.Serve(listener); ctx.Err() == nil { // do not lead without a listener
			resign(err)
		}
	}()
	go func() {
		if err := c.Ready(member); err != nil { // the servers refuse our credentials, or member has ended
			resign(err)
		}
	}()
	return s.run(member)
}
