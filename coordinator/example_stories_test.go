package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// requests counts the requests that a coordinator sends.
type requests struct{ atomic.Int64 }

func (r *requests) OnRequest(hooks.Request) { r.Add(1) }

// Eight goroutines increment one counter. With Cached they pass the lock to each other
// without a request. The fencing token is then the pair of Token and Turn, which grows
// from grant to grant.
func ExampleCached_requests() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	count := func(options ...coordinator.LockOption) int64 {
		ctx, sent := context.Background(), new(requests)
		c, err := coordinator.Connect(ctx, srv.Addr(), coordinator.WithHooks(sent))
		must(err)
		lock := c.Mutex("/locks/counter", options...)
		value, latest := 0, events.Grant{}
		var working sync.WaitGroup
		for range 8 {
			working.Go(func() {
				for range 25 {
					must(lock.Do(ctx, func(_ context.Context, g events.Grant) error {
						if g.Token < latest.Token || g.Token == latest.Token && g.Turn <= latest.Turn {
							return errors.New("a later grant has been here")
						}
						value, latest = value+1, g
						return nil
					}))
				}
			})
		}
		working.Wait()
		must(c.Close())
		fmt.Println(value, "increments")
		return sent.Load()
	}
	plain, cached := count(), count(coordinator.Cached())
	fmt.Println("each asks the servers:", plain >= 200)
	fmt.Println("with Cached, at most one in ten does:", cached <= plain/10)
	// Output:
	// 200 increments
	// 200 increments
	// each asks the servers: true
	// with Cached, at most one in ten does: true
}

// Small jobs take one of four permits, and a big one takes three together. Permits are
// granted in order of arrival, so later small jobs do not keep the big one out.
func ExamplePermits_order() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	jobs := c.Semaphore("/limits/jobs", 4)
	first, second := jobs.Acquire(ctx), jobs.Acquire(ctx)
	<-first.Granted()
	<-second.Granted()
	big := jobs.Acquire(ctx, coordinator.Permits(3)) // two are free
	queues(big)
	late := jobs.Acquire(ctx) // waits for its turn, although two are free

	first.Release()
	<-big.Granted()
	fmt.Println("the big job runs, and the late one:", late.Valid())
	second.Release()
	<-late.Granted()
	fmt.Println("both run:", big.Valid() && late.Valid())
	// Output:
	// the big job runs, and the late one: false
	// both run: true
}

// queues waits until the acquisition is in the queue.
func queues(a *coordinator.Acquisition) {
	for _, ok := a.Position(); !ok; _, ok = a.Position() {
		<-time.After(time.Millisecond)
	}
}

// A job copies one table after the other. When its lock is revoked, it finishes the
// current table and releases. The operator queues up before it calls Revoke, and so is
// next. Then the job queues up again.
func ExampleAcquisition_Revoked() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := c.Mutex("/locks/tables", coordinator.Revocable())
	job, _ := held(lock)
	operator := lock.Acquire(ctx)
	queues(operator)
	go func() { _ = c.Revoke(ctx, "/locks/tables", time.Minute) }() // ErrNotHeld: the lock was free

	asked, deadline := false, time.Time{}
	for table := 1; job.Valid(); {
		select {
		case r := <-job.Revoked():
			asked, deadline = true, r.Deadline // the zero time if the request is Curator's
			fmt.Println("asked for the lock")
		case <-time.After(10 * time.Millisecond): // a table has been copied: a safe point
			table++
			if asked {
				fmt.Println("releases in time:", deadline.IsZero() || time.Now().Before(deadline))
				job.Release()
			}
		case <-job.Lost(): // too slow: the current table has to be copied again
			fmt.Println("lost the lock, in table", table)
		}
	}
	again := lock.Acquire(ctx)
	_, err := operator.Wait(ctx)
	must(err)
	fmt.Println("the operator holds, and the job:", again.Valid())
	operator.Release()
	_, err = again.Wait(ctx)
	must(err)
	fmt.Println("the job goes on")
	// Output:
	// asked for the lock
	// releases in time: true
	// the operator holds, and the job: false
	// the job goes on
}

// Two values belong together, and a writer changes one after the other. A writer that
// dies in between leaves half a change. Each Grant reports that crash until another
// writer has released: until then readers leave the values alone, and the next writer
// repairs them first.
func ExampleDetectCrash_readers() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := c.ReadWrite("/locks/prices", coordinator.DetectCrash())
	gross, net := 119, 100
	write := func(who string, price int, dies bool) {
		defer func() { _ = recover() }()
		must(lock.Write().Do(ctx, func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("%s repairs what %s left: %d, %d\n", who, left.Data, gross, net)
				gross = net * 119 / 100
			}
			net = price
			if dies {
				panic("out of memory")
			}
			gross = price * 119 / 100
			return nil
		}, coordinator.Data([]byte(who))))
	}
	read := func() {
		must(lock.Read().Do(ctx, func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("a reader waits for the repair of what %s left\n", left.Data)
				return nil // the next Grant reports the crash again
			}
			fmt.Println("a reader sees", gross, net)
			return nil
		}))
	}
	read()
	write("ann", 200, true)
	read()
	write("bob", 300, false)
	read()
	// Output:
	// a reader sees 119 100
	// a reader waits for the repair of what ann left
	// bob repairs what ann left: 119, 200
	// a reader sees 357 300
}

// Transfers in opposite directions do not deadlock: each holds the locks of both accounts
// or none. One transaction writes both balances, and only while the nodes of both locks
// exist, so a transfer that has lost a lock moves no money. Get reads on the locks'
// session, so it sees what the last holder wrote.
func ExampleCoordinator_Multi_transfer() {
	c, srv, stop := exampleServer()
	defer stop()
	must(srv.Create("/accounts/anna", []byte("100")))
	must(srv.Create("/accounts/ben", []byte("100")))

	add := func(held *coordinator.Acquisition, account string, amount int) *zk.SetDataRequest {
		data, stat, err := held.Get(context.Background(), "/accounts/"+account)
		must(err)
		balance, err := strconv.Atoi(string(data))
		must(err)
		return &zk.SetDataRequest{Path: "/accounts/" + account, Data: []byte(strconv.Itoa(balance + amount)), Version: stat.Version}
	}
	transfer := func(from, to string, amount int, meanwhile func(events.Grant)) error {
		both := c.Multi(c.Mutex("/locks/"+coordinator.PathEscape(from)), c.Mutex("/locks/"+coordinator.PathEscape(to)))
		return both.Do(context.Background(), func(ctx context.Context, grant events.Grant) error {
			held, _ := coordinator.FromContext(ctx)
			out, in := add(held, from, -amount), add(held, to, amount)
			meanwhile(grant)
			_, err := held.Txn(ctx, out, in)
			return err
		})
	}
	balances := func() string {
		anna, _ := srv.Data("/accounts/anna")
		ben, _ := srv.Data("/accounts/ben")
		return fmt.Sprintf("anna %s, ben %s", anna, ben)
	}
	var tellers sync.WaitGroup
	for range 5 {
		tellers.Go(func() { must(transfer("anna", "ben", 20, func(events.Grant) {})) })
		tellers.Go(func() { must(transfer("ben", "anna", 10, func(events.Grant) {})) })
	}
	tellers.Wait()
	fmt.Println(balances())

	err := transfer("anna", "ben", 50, func(g events.Grant) { must(srv.Delete(g.Members[1].Node)) }) // simulate an accident
	fmt.Println("a lock is lost:", errors.Is(err, coordinator.ErrNodeRemoved))
	fmt.Println(balances())
	// Output:
	// anna 50, ben 150
	// a lock is lost: true
	// anna 50, ben 150
}
