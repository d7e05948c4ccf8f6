package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Readers hold the lock together, and a writer waits until the last of them has gone.
func ExampleCoordinator_ReadWrite() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	prices := c.ReadWrite("/locks/prices")
	take := func(side *coordinator.Lock) *coordinator.Acquisition {
		a := side.Acquire(ctx)
		_, err := a.Wait(ctx)
		must(err)
		return a
	}
	ann, bob := take(prices.Read()), take(prices.Read())
	_, err := prices.Write().Acquire(ctx, coordinator.Try()).Wait(ctx)
	fmt.Println("two readers:", ann.Valid() && bob.Valid(), "- and a writer:", err)

	ann.Release()
	bob.Release()
	writer := take(prices.Write())
	fmt.Println("the writer, when they have gone:", writer.Valid())
	// Output:
	// two readers: true - and a writer: zkgrant: not acquired
	// the writer, when they have gone: true
}

// A writer that wants to go on reading what it has written becomes a reader, and no other writer
// comes in between: it asks with the context of the write lock, and then gives that back.
func ExampleReadWrite_Read() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	prices := c.ReadWrite("/locks/prices")
	write := prices.Write().Acquire(ctx)
	_, err := write.Wait(ctx)
	must(err)
	other := prices.Write().Acquire(ctx) // waits

	read := prices.Read().Acquire(write.Context(ctx))
	_, err = read.Wait(ctx)
	must(err)
	write.Release()
	<-write.Done()
	fmt.Println("reads:", read.Valid(), "- the other writer is in:", other.Valid())

	read.Release()
	_, err = other.Wait(ctx)
	must(err)
	fmt.Println("the other writer, behind that:", other.Valid())
	// Output:
	// reads: true - the other writer is in: false
	// the other writer, behind that: true
}

// Two readers decide to write by what they have read. Each writes under its read lock with a transaction that checks the version that
// it has read. ZooKeeper refuses the second one, which reads again.
func ExampleReadWrite_Write_txn() {
	c, srv, stop := exampleServer()
	defer stop()
	must(srv.Create("/price", []byte("100")))
	conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogInfo(false)) // what the program reads with
	must(err)
	defer conn.Close()

	ctx := context.Background()
	rw := c.ReadWrite("/locks/price")
	ann, _ := held(rw.Read())
	bob, _ := held(rw.Read())
	raise := func(who *coordinator.Acquisition, by, read, version int) error {
		price := strconv.Itoa(read + by)
		_, err := who.Txn(ctx, &zk.SetDataRequest{Path: "/price", Data: []byte(price), Version: int32(version)})
		return err
	}
	look := func() (price, version int) {
		data, stat, err := conn.Get("/price")
		must(err)
		price, err = strconv.Atoi(string(data))
		must(err)
		return price, int(stat.Version)
	}

	price, version := look() // both have read the same
	fmt.Println("ann:", raise(ann, 5, price, version))
	err = raise(bob, 10, price, version)
	fmt.Println("bob read an old version:", errors.Is(err, zk.ErrBadVersion))
	price, version = look()
	fmt.Println("bob, again:", raise(bob, 10, price, version))
	price, _ = look()
	fmt.Println("the price:", price)
	// Output:
	// ann: <nil>
	// bob read an old version: true
	// bob, again: <nil>
	// the price: 115
}

// Two customers see the last seat under the read lock. To book it each releases the read lock, takes the write lock and looks again:
// another writer may have come in between.
func ExampleReadWrite_Write_lookAgain() {
	c, _, stop := exampleServer()
	defer stop()

	ctx := context.Background()
	rw, seats := c.ReadWrite("/locks/seats"), 1
	ann, _ := held(rw.Read())
	bob, _ := held(rw.Read())
	fmt.Println("seats:", seats)
	_, err := rw.Write().Acquire(ann.Context(ctx)).Wait(ctx)
	fmt.Println("while reading:", errors.Is(err, coordinator.ErrDeadlock))

	ann.Release()
	bob.Release()
	for _, who := range []string{"ann", "bob"} {
		must(rw.Write().Do(ctx, func(context.Context, events.Grant) error {
			if seats == 0 {
				fmt.Println(who, "comes too late")
				return nil
			}
			seats--
			fmt.Println(who, "has the seat")
			return nil
		}))
	}
	// Output:
	// seats: 1
	// while reading: true
	// ann has the seat
	// bob comes too late
}
