package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
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

// Whoever decides by what it reads whether it will write holds the upgradable lock, beside readers. It becomes the
// writer when they have left, and no other writer comes in between, also if he has waited for longer.
func ExampleReadWrite_Upgradable() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	prices := c.ReadWrite("/locks/prices")
	up := prices.Upgradable().Acquire(ctx)
	_, err := up.Wait(ctx)
	must(err)
	reader := prices.Read().Acquire(ctx)
	_, err = reader.Wait(ctx)
	must(err)
	other := prices.Write().Acquire(ctx) // waits

	write := prices.Write().Acquire(up.Context(ctx)) // what was read says so
	fmt.Println("beside a reader:", write.Valid())
	reader.Release()
	_, err = write.Wait(ctx)
	must(err)
	fmt.Println("behind it:", write.Valid(), "- the other writer is in:", other.Valid())

	write.Release()
	up.Release()
	_, err = other.Wait(ctx)
	must(err)
	fmt.Println("the other writer, behind that:", other.Valid())
	// Output:
	// beside a reader: false
	// behind it: true - the other writer is in: false
	// the other writer, behind that: true
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
