package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
)

// State that is kept in ZooKeeper is changed by the holder or not at all, however
// long the holder was halted in between.
func ExampleAcquisition_Txn() {
	c, srv, stop := exampleServer()
	defer stop()
	if err := srv.Create("/balance", []byte("100")); err != nil {
		log.Print(err)
		return
	}

	lock := c.Mutex("/locks/balance").Acquire(context.Background())
	grant, err := lock.Wait(context.Background())
	if err != nil {
		log.Print(err)
		return
	}
	set := func(to string) error {
		_, err := lock.Txn(context.Background(), &zk.SetDataRequest{Path: "/balance", Data: []byte(to), Version: -1})
		return err
	}
	fmt.Println(set("90"))
	if err := srv.Delete(grant.Node); err != nil { // an accident
		log.Print(err)
	}
	fmt.Println(errors.Is(set("80"), coordinator.ErrNodeRemoved))
	balance, _ := srv.Data("/balance")
	fmt.Println(string(balance))
	// Output:
	// <nil>
	// true
	// 90
}
