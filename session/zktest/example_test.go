package zktest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// start is New for programs that cannot go on without a server.
func start(settings ...zktest.Setting) *zktest.Server {
	srv, err := zktest.New(settings...)
	if err != nil {
		log.Fatal(err)
	}
	return srv
}

func ExampleNew() {
	srv := start()
	defer srv.Close()

	c, err := coordinator.Connect(context.Background(), srv.Addr()) // over TCP, as to any server
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(c.State(), len(srv.Sessions()))
	if err := c.Close(); err != nil {
		log.Print(err)
	}
	// Output: connected 1
}

func ExampleServer_Option() {
	srv := start(zktest.InMemory())
	defer srv.Close()

	c, err := coordinator.Connect(context.Background(), srv.Addr(), srv.Option()) // without a socket
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(c.State())
	if err := c.Close(); err != nil {
		log.Print(err)
	}
	// Output: connected
}

func ExampleServer_Intercept() {
	srv := start()
	defer srv.Close()
	c, err := coordinator.Connect(context.Background(), srv.Addr())
	if err != nil {
		log.Print(err)
		return
	}

	// The server creates the node, and the reply is lost with the connection.
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Op == zktest.OpCreate && srv.Exists("/locks/a") {
			srv.Intercept(nil)
			return zktest.CutAfter()
		}
		return zktest.Pass()
	})
	lock := c.Mutex("/locks/a").Acquire(context.Background())
	if _, err := lock.Wait(context.Background()); err != nil {
		log.Print(err)
		return
	}
	fmt.Println("nodes:", len(srv.Children("/locks/a"))) // the one that was found again
	if err := c.Close(); err != nil {
		log.Print(err)
	}
	fmt.Println("nodes:", len(srv.Children("/locks/a")))
	// Output:
	// nodes: 1
	// nodes: 0
}
