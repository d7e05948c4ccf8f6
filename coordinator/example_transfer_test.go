package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Transfers in opposite directions do not wait for each other: each holds the locks of both accounts or none.
// One transaction writes both balances, and only while both locks' nodes exist. So a lost lock moves no money.
// The versions refuse what was read from a server that lags behind.
func ExampleCoordinator_Multi_transfer() {
	c, srv, stop := exampleServer()
	defer stop()
	must(srv.Create("/accounts/anna", []byte("100")))
	must(srv.Create("/accounts/ben", []byte("100")))
	conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogInfo(false)) // what the program reads with
	must(err)
	defer conn.Close()

	add := func(account string, amount int) *zk.SetDataRequest {
		data, stat, err := conn.Get("/accounts/" + account)
		must(err)
		balance, err := strconv.Atoi(string(data))
		must(err)
		return &zk.SetDataRequest{Path: "/accounts/" + account, Data: []byte(strconv.Itoa(balance + amount)), Version: stat.Version}
	}
	transfer := func(from, to string, amount int, meanwhile func(events.Grant)) error {
		both := c.Multi(c.Mutex("/locks/"+from), c.Mutex("/locks/"+to))
		return both.Do(context.Background(), func(ctx context.Context, grant events.Grant) error {
			out, in := add(from, -amount), add(to, amount)
			meanwhile(grant)
			held, _ := coordinator.FromContext(ctx)
			_, err := held.Txn(ctx, out, in)
			return err
		})
	}
	var tellers sync.WaitGroup
	for range 5 {
		tellers.Go(func() { must(transfer("anna", "ben", 20, func(events.Grant) {})) })
		tellers.Go(func() { must(transfer("ben", "anna", 10, func(events.Grant) {})) })
	}
	tellers.Wait()
	fmt.Printf("anna %s, ben %s\n", add("anna", 0).Data, add("ben", 0).Data)

	err = transfer("anna", "ben", 50, func(g events.Grant) { must(srv.Delete(g.Members[1].Node)) }) // an accident
	fmt.Println("a lock is lost:", errors.Is(err, coordinator.ErrNodeRemoved))
	fmt.Printf("anna %s, ben %s\n", add("anna", 0).Data, add("ben", 0).Data)
	// Output:
	// anna 50, ben 150
	// a lock is lost: true
	// anna 50, ben 150
}
