package coordinator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func ExampleConnect() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel() // bounds Connect only
	c, err := coordinator.Connect(ctx, srv.Addr()+"/app", coordinator.WithSessionTimeout(10*time.Second))
	must(err)
	defer func() { must(c.Close()) }()
	fmt.Println(c.State(), c.SessionID() != 0)

	_, err = coordinator.Connect(ctx, "zk1:2181,zk2:port")
	fmt.Println(errors.Is(err, coordinator.ErrConnectString))
	// Output:
	// connected true
	// true
}

// A service starts before its servers. It may ask for locks right away.
func ExampleOpen() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	c, err := coordinator.Open(srv.Addr()) // returns at once
	must(err)
	defer func() { must(c.Close()) }()
	lock := c.Mutex("/locks/a").Acquire(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	must(c.Ready(ctx)) // as a readiness probe does
	grant, err := lock.Wait(ctx)
	must(err)
	fmt.Println(c.State(), grant.Path)
	// Output: connected /locks/a
}

// Shutdown has a bound of its own, such as the grace period of a Kubernetes Pod.
func ExampleCoordinator_Shutdown() {
	c, _, stop := exampleServer()
	defer stop()
	lock, _ := held(c.Mutex("/locks/a"))

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := c.Shutdown(ctx)
	<-lock.Done()
	fmt.Println(err, errors.Is(lock.Err(), coordinator.ErrClosed))
	// Output: <nil> true
}

// The session timeout is how long other contenders wait if a process dies.
func ExampleWithSessionTimeout() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	_, err = coordinator.Open(srv.Addr(), coordinator.WithSessionTimeout(100*time.Millisecond))
	fmt.Println(errors.Is(err, coordinator.ErrInvalid))
	c, err := coordinator.Open(srv.Addr(), coordinator.WithSessionTimeout(6*time.Second), coordinator.WithTickTime(2*time.Second))
	must(err)
	must(c.Ready(context.Background()))
	must(c.Close())
	// Output: true
}

func ExampleCoordinator_Close() {
	c, srv, stop := exampleServer()
	defer stop()

	lock, grant := held(c.Mutex("/locks/a"))
	must(c.Close()) // deletes the node and ends the session
	<-lock.Done()
	fmt.Println(lock.Err(), srv.Exists(grant.Node), c.State())
	// Output: zkgrant: coordinator closed false closed
}

func ExampleCoordinator_Mutex() {
	c, _, stop := exampleServer()
	defer stop()

	mutex := c.Mutex("/locks/a") // a handle: holds nothing, may be reused
	for range 2 {
		lock, grant := held(mutex)
		fmt.Println(mutex.Path() == grant.Path, lock.ID() == grant.ID)
		lock.Release()
	}
	// Output:
	// true true
	// true true
}

func ExampleLock_Acquire() {
	c, _, stop := exampleServer()
	defer stop()

	first, _ := held(c.Mutex("/locks/a"))
	second := c.Mutex("/locks/a").Acquire(context.Background()) // returns at once
	select {
	case <-second.Granted():
		fmt.Println("too early")
	default:
		fmt.Println("other work is done meanwhile")
	}
	first.Release()
	grant := <-second.Granted()
	fmt.Println("granted", grant.Path)
	second.Release()
	// Output:
	// other work is done meanwhile
	// granted /locks/a
}

func ExampleAcquisition_Release() {
	c, _, stop := exampleServer()
	defer stop()

	lock, _ := held(c.Mutex("/locks/a"))
	waiting := c.Mutex("/locks/a").Acquire(context.Background())
	waiting.Release() // leaves the queue
	lock.Release()    // releases the lock
	lock.Release()    // is harmless
	<-waiting.Done()
	<-lock.Done()
	fmt.Println(waiting.Err())
	fmt.Println(lock.Err())
	// Output:
	// zkgrant: not acquired
	// <nil>
}

func ExampleAcquisition_Valid() {
	c, _, stop := exampleServer()
	defer stop()

	lock, _ := held(c.Mutex("/locks/a"))
	// Check right before an effect on another system, and give the effect no more time
	// than the lease has left.
	if lock.Valid() {
		ctx, cancel := context.WithDeadline(context.Background(), lock.Deadline())
		left, _ := ctx.Deadline()
		fmt.Println("writes within the lease:", time.Until(left) > 0)
		cancel()
	}
	lock.Release()
	fmt.Println(lock.Valid(), lock.Deadline().IsZero())
	// Output:
	// writes within the lease: true
	// false true
}

func ExampleAcquisition_Lost() {
	c, srv, stop := exampleServer()
	defer stop()

	lock, grant := held(c.Mutex("/locks/a"))
	must(srv.Delete(grant.Node)) // another client deletes the node
	lost := <-lock.Lost()
	fmt.Println(lost.Reason, lost.Token == grant.Token, errors.Is(lost.Err, coordinator.ErrNodeRemoved))
	// Output: node removed true true
}

func ExampleAcquisition_Context() {
	c, srv, stop := exampleServer()
	defer stop()

	lock, _ := held(c.Mutex("/locks/a"))
	ctx := lock.Context(context.Background()) // for calls that take a context
	must(srv.Expire(c.SessionID()))
	<-ctx.Done()
	var lost *coordinator.LostError
	fmt.Println(errors.As(context.Cause(ctx), &lost), lost.Path)
	// Output: true /locks/a
}

func ExampleAcquisition_Context_deadlock() {
	c, _, stop := exampleServer()
	defer stop()

	lock, _ := held(c.Mutex("/locks/a"))
	again := c.Mutex("/locks/a").Acquire(lock.Context(context.Background()))
	<-again.Done() // it would wait for itself
	fmt.Println(errors.Is(again.Err(), coordinator.ErrDeadlock))
	// Output: true
}

func ExampleMaxWait() {
	c, _, stop := exampleServer()
	defer stop()

	held(c.Mutex("/locks/a"))
	late := c.Mutex("/locks/a").Acquire(context.Background(), coordinator.MaxWait(50*time.Millisecond))
	<-late.Done()
	fmt.Println(late.Err())
	// Output: zkgrant: waited too long
}

func ExampleData() {
	c, srv, stop := exampleServer()
	defer stop()

	_, grant := held(c.Mutex("/locks/a"), coordinator.Data([]byte("host-7, pid 4711")))
	data, _ := srv.Data(grant.Node)
	fmt.Println(string(data))
	// Output: host-7, pid 4711
}

func ExampleWithAuth() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	connect := func(options ...coordinator.Option) *coordinator.Coordinator {
		c, err := coordinator.Connect(context.Background(), srv.Addr(), options...)
		must(err)
		return c
	}

	// Only the owner of the identity may touch the nodes. That includes READ: contenders
	// have to see each other's nodes.
	mine := connect(coordinator.WithAuth("digest", []byte("app:secret")), coordinator.WithACL(zk.AuthACL(zk.PermAll)))
	lock, _ := held(mine.Mutex("/app/locks/a"))
	stranger := connect()
	denied := stranger.Mutex("/app/locks/a").Acquire(context.Background())
	<-denied.Done()
	fmt.Println(lock.Valid(), errors.Is(denied.Err(), coordinator.ErrNoAuth))
	must(mine.Close())
	must(stranger.Close())
	// Output: true true
}

func ExampleACL() {
	c, _, stop := exampleServer()
	defer stop()

	// For one lock instead of the whole coordinator.
	_, grant := held(c.Mutex("/locks/a", coordinator.ACL(zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermDelete))))
	fmt.Println(grant.Path)
	// Output: /locks/a
}

func ExampleWithDialer() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	through := func(ctx context.Context, network, address string) (net.Conn, error) {
		fmt.Println("dials", address == "zk.example:2181")
		return new(net.Dialer).DialContext(ctx, network, srv.Addr()) // a proxy, say
	}
	c, err := coordinator.Connect(context.Background(), "zk.example", coordinator.WithDialer(through))
	must(err)
	must(c.Close())
	// Output: dials true
}

func ExampleWithLossOnSuspend() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	c, err := coordinator.Connect(context.Background(), srv.Addr(),
		coordinator.WithTickTime(2*time.Second),    // as in the servers' zoo.cfg
		coordinator.WithProbeInterval(time.Second), // one write a second while anything is held
		coordinator.WithLossOnSuspend())
	must(err)
	defer func() { must(c.Close()) }()

	lock, _ := held(c.Mutex("/locks/a"))
	srv.Cut(c.SessionID()) // simulate an outage
	fmt.Println((<-lock.Lost()).Reason)
	// Output: connection suspended
}

func ExampleWithLogger() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()

	var lines bytes.Buffer
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m"})
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&lines), zapcore.InfoLevel))
	c, err := coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithLogger(logger))
	must(err)
	must(c.Close())
	fmt.Println(strings.Contains(lines.String(), "session established"))
	// Output: true
}

func ExampleLostError() {
	err := error(&coordinator.LostError{Path: "/locks/a", Reason: events.ReasonLeaseRanOut})
	fmt.Println(err)
	fmt.Println(errors.Is(err, coordinator.ErrLeaseRanOut))
	// Output:
	// zkgrant: lock /locks/a lost: lease ran out
	// true
}

func ExampleWithTLS() {
	srv, err := zktest.New() // speaks plain text
	must(err)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = coordinator.Connect(ctx, srv.Addr(), coordinator.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}))
	fmt.Println(strings.Contains(err.Error(), "tls")) // the cause is in the error
	// Output: true
}

// Readers hold the lock together, and a writer waits until the last of them has gone.
func ExampleCoordinator_ReadWrite() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	prices := c.ReadWrite("/locks/prices")
	ann, _ := held(prices.Read())
	bob, _ := held(prices.Read())
	_, err := prices.Write().Acquire(ctx, coordinator.Try()).Wait(ctx)
	fmt.Println("two readers:", ann.Valid() && bob.Valid(), "- and a writer:", err)

	ann.Release()
	bob.Release()
	writer, _ := held(prices.Write())
	fmt.Println("the writer, when they have gone:", writer.Valid())
	// Output:
	// two readers: true - and a writer: zkgrant: not acquired
	// the writer, when they have gone: true
}

// A writer becomes a reader, to go on reading what it has written. It acquires the read
// lock with the write lock's context, and then releases the write lock. No other writer
// gets in between.
func ExampleReadWrite_Read() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	prices := c.ReadWrite("/locks/prices")
	write, _ := held(prices.Write())
	other := prices.Write().Acquire(ctx) // waits

	read := prices.Read().Acquire(write.Context(ctx))
	_, err := read.Wait(ctx)
	must(err)
	write.Release()
	<-write.Done()
	fmt.Println("reads:", read.Valid(), "- the other writer is in:", other.Valid())

	read.Release()
	_, err = other.Wait(ctx)
	must(err)
	fmt.Println("the other writer, after that:", other.Valid())
	// Output:
	// reads: true - the other writer is in: false
	// the other writer, after that: true
}

// Two readers compute a new price from what they have read. Each writes under its read
// lock, in a transaction that checks the version it has read. ZooKeeper refuses the
// second one, so that reader reads again.
func ExampleReadWrite_Write_txn() {
	c, srv, stop := exampleServer()
	defer stop()
	must(srv.Create("/price", []byte("100")))
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
		data, stat, err := ann.Get(ctx, "/price") // on the lock's session, so it is never older than the lock
		must(err)
		price, err = strconv.Atoi(string(data))
		must(err)
		return price, int(stat.Version)
	}

	price, version := look() // both have read the same
	fmt.Println("ann:", raise(ann, 5, price, version))
	err := raise(bob, 10, price, version)
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

// Two customers see the last seat under the read lock. To book it, each releases the read
// lock, takes the write lock and looks again: another writer may have come in between.
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

// counter counts acquisitions by the kind of lock.
type counter map[string]int

func (c counter) OnAcquire(_ context.Context, info hooks.Acquire) { c[info.Kind]++ }

func ExampleWithHooks() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	asked := counter{}
	ctx := context.Background()
	c, err := coordinator.Connect(ctx, srv.Addr(), coordinator.WithHooks(asked))
	must(err)
	held(c.Mutex("/locks/reindex"))
	held(c.Unfair("/tasks/17"))
	must(c.Close())
	fmt.Println(asked)
	// Output: map[mutex:1 unfair:1]
}

func ExampleWithSlog() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	log := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "session" || a.Key == "epoch" || a.Key == "server" {
				return slog.Attr{} // differs in each run
			}
			return a
		},
	})
	c, err := coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithSlog(log))
	must(err)
	must(c.Close())
	// Output:
	// level=INFO msg="session established" timeout=10s
	// level=INFO msg="session closed" confirmed=true
}
