package zktest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func ExampleNew() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	c, err := coordinator.Connect(context.Background(), srv.Addr()) // over TCP, as to any server
	must(err)
	fmt.Println(c.State(), len(srv.Sessions()))
	must(c.Close())
	// Output: connected 1
}

func ExampleServer_Option() {
	srv, err := zktest.New(zktest.InMemory())
	must(err)
	defer srv.Close()

	c, err := coordinator.Connect(context.Background(), srv.Addr(), srv.Option()) // without a socket
	must(err)
	fmt.Println(c.State())
	must(c.Close())
	// Output: connected
}

func ExampleServer_Intercept() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	c, err := coordinator.Connect(context.Background(), srv.Addr())
	must(err)

	// The server creates the node, and the reply is lost with the connection.
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Op == zktest.OpCreate && srv.Exists("/locks/a") {
			srv.Intercept(nil)
			return zktest.CutAfter()
		}
		return zktest.Pass()
	})
	lock := c.Mutex("/locks/a").Acquire(context.Background())
	_, err = lock.Wait(context.Background())
	must(err)
	fmt.Println("nodes:", len(srv.Children("/locks/a"))) // the one that was found again
	must(c.Close())
	fmt.Println("nodes:", len(srv.Children("/locks/a")))
	// Output:
	// nodes: 1
	// nodes: 0
}
