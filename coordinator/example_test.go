package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// exampleServer stands in for an ensemble. A program would name its servers:
// coordinator.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181/app").
func exampleServer() (c *coordinator.Coordinator, srv *zktest.Server, stop func()) {
	srv, err := zktest.New()
	must(err)
	c, err = coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithSessionTimeout(10*time.Second))
	must(err)
	return c, srv, func() {
		must(c.Close())
		srv.Close()
	}
}

// must ends the program if there is an error.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// held returns a granted acquisition.
func held(l *coordinator.Lock, options ...coordinator.AcquireOption) (*coordinator.Acquisition, events.Grant) {
	a := l.Acquire(context.Background(), options...)
	grant, err := a.Wait(context.Background())
	must(err)
	return a, grant
}

// The whole loop: a lock is requested, granted, lost, and ended.
func Example() {
	c, srv, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/reindex").Acquire(context.Background())
	defer lock.Release()
	for {
		select {
		case grant := <-lock.Granted():
			fmt.Println("granted", grant.Path, "valid:", lock.Valid())
			must(srv.Expire(c.SessionID())) // simulate an accident
		case lost := <-lock.Lost():
			fmt.Println("lost:", lost.Reason, "valid:", lock.Valid())
		case <-lock.Done():
			select {
			case lost := <-lock.Lost(): // both were ready
				fmt.Println("lost:", lost.Reason, "valid:", lock.Valid())
			default:
			}
			fmt.Println("over:", lock.Err())
			return
		}
	}
	// Output:
	// granted /locks/reindex valid: true
	// lost: session expired valid: false
	// over: zkgrant: lock /locks/reindex lost: session expired
}

func ExampleLock_Do() {
	c, _, stop := exampleServer()
	defer stop()

	err := c.Mutex("/locks/report").Do(context.Background(), func(ctx context.Context, g events.Grant) error {
		fmt.Println("working under", g.Path, "until done or", ctx.Err())
		return nil
	})
	fmt.Println(err)
	// Output:
	// working under /locks/report until done or <nil>
	// <nil>
}

// The lock outlives the call that acquired it.
func ExampleLock_Hold() {
	c, _, stop := exampleServer()
	defer stop()

	lock, err := c.Mutex("/locks/import").Hold(context.Background(), coordinator.MaxWait(time.Minute))
	must(err)
	fmt.Println("a token to fence with:", lock.Grant().Token > 0)
	lock.Release()
	<-lock.Done() // the node is gone
	fmt.Println(lock.Err())
	// Output:
	// a token to fence with: true
	// <nil>
}

func ExampleAcquisition_Wait() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/import").Acquire(context.Background())
	grant, err := lock.Wait(context.Background())
	must(err)
	fmt.Println("a token to fence with:", grant.Token > 0)
	// Output: a token to fence with: true
}

func ExampleTry() {
	c, _, stop := exampleServer()
	defer stop()

	held(c.Mutex("/locks/nightly"))
	second := c.Mutex("/locks/nightly").Acquire(context.Background(), coordinator.Try())
	<-second.Done()
	fmt.Println(errors.Is(second.Err(), coordinator.ErrNotAcquired))
	// Output: true
}

// Lists the holder and the waiters of a lock, and since when.
func ExampleLock_Queue() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/nightly")
	held(lock, coordinator.Data([]byte("host-1, pid 17")))
	second := lock.Acquire(context.Background(), coordinator.Data([]byte("host-2, pid 4711")))
	defer second.Release()
	var queue []events.Contender
	for len(queue) < 2 { // until the server has the second node
		var err error
		queue, err = lock.Queue(context.Background())
		must(err)
	}
	for _, who := range queue {
		fmt.Printf("%s, holding: %v, for less than a minute: %v\n", who.Data, who.Holding, time.Since(who.Since) < time.Minute)
	}
	// Output:
	// host-1, pid 17, holding: true, for less than a minute: true
	// host-2, pid 4711, holding: false, for less than a minute: true
}

// A reader of the event stream sees the events of every lock of the coordinator, and
// takes no Grant.
func ExampleCoordinator_Events() {
	c, _, stop := exampleServer()
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := c.Events(ctx)
	must(c.Mutex("/locks/report").Do(ctx, func(context.Context, events.Grant) error { return nil }))
	for ev := range stream {
		fmt.Printf("%T\n", ev)
		if _, ended := ev.(events.Ended); ended {
			break
		}
	}
	// Output:
	// events.Grant
	// events.Ended
}

// One loop over five shards. It requests lost shards again. To stop, it stops its work,
// closes the group, and reads on until the last Ended.
func ExampleGroup() {
	c, srv, stop := exampleServer()
	defer stop()

	ctx := context.Background()
	g := coordinator.NewGroup()
	for i := range 5 {
		g.Acquire(ctx, c.Mutex(fmt.Sprintf("/shards/%d", i)))
	}
	shards := map[uint64]string{} // held shards, by ID
	grants, losses := 0, 0
	for ev := range g.Events() {
		switch ev := ev.(type) {
		case events.Grant: // this takes the lock; the work begins
			shards[ev.ID] = ev.Path
			switch grants++; grants {
			case 5:
				must(srv.Delete(ev.Node)) // an operator removes its node
			case 6:
				fmt.Printf("%d shards are held, %d was lost\n", len(shards), losses)
				g.Close() // after the work has stopped
			}
		case events.Lost: // the work stops
			losses++
		case events.Ended: // every acquisition has one
			delete(shards, ev.ID)
			var lost *coordinator.LostError
			if errors.As(ev.Err, &lost) {
				g.Acquire(ctx, c.Mutex(ev.Path))
			}
		}
	}
	fmt.Printf("in the end %d are held\n", len(shards))
	// Output:
	// 5 shards are held, 1 was lost
	// in the end 0 are held
}

// After a crash, the next holder repairs what the crashed one left half done. If a
// function has returned, or the lock was released, the next holder finds everything in
// order.
func ExampleDetectCrash() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/accounts", coordinator.DetectCrash())
	transfer := func(who string, crash bool) {
		defer func() { _ = recover() }()
		_ = lock.Do(context.Background(), func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("%s repairs what %s has left\n", who, left.Data)
			}
			if crash {
				panic("out of memory")
			}
			fmt.Println(who, "is done")
			return nil
		}, coordinator.Data([]byte(who)))
	}
	transfer("ann", false)
	transfer("bob", true)
	transfer("cid", false)
	transfer("dan", false)

	// Output:
	// ann is done
	// cid repairs what bob has left
	// cid is done
	// dan is done
}

// A counter in ZooKeeper: no update is lost or counted twice.
func ExampleAcquisition_Update() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock, _ := held(c.Mutex("/locks/counter"))
	for range 3 {
		must(lock.Update(ctx, "/counter", func(old []byte, _ bool) ([]byte, error) {
			return append(old, '|'), nil
		}))
	}
	data, stat, err := lock.Get(ctx, "/counter")
	must(err)
	fmt.Println(string(data), "version", stat.Version)
	// Output: ||| version 2
}

// State in ZooKeeper is changed by the holder or not at all, however long the holder was
// paused in between.
func ExampleAcquisition_Txn() {
	c, srv, stop := exampleServer()
	defer stop()
	must(srv.Create("/balance", []byte("100")))

	lock, grant := held(c.Mutex("/locks/balance"))
	set := func(to string) error {
		_, err := lock.Txn(context.Background(), &zk.SetDataRequest{Path: "/balance", Data: []byte(to), Version: -1})
		return err
	}
	fmt.Println(set("90"))
	must(srv.Delete(grant.Node)) // simulate an accident
	fmt.Println(errors.Is(set("80"), coordinator.ErrNodeRemoved))
	balance, _ := srv.Data("/balance")
	fmt.Println(string(balance))
	// Output:
	// <nil>
	// true
	// 90
}

// A function takes the lock that it needs, whether or not its caller holds it already:
// the context says so.
func ExampleReentrant() {
	c, srv, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/accounts", coordinator.Reentrant())
	balance := map[string]int{"a": 10, "b": 0}
	var tokens []int64
	add := func(ctx context.Context, account string, amount int) error {
		return lock.Do(ctx, func(_ context.Context, g events.Grant) error {
			balance[account] += amount
			tokens = append(tokens, g.Token)
			return nil
		})
	}
	must(lock.Do(context.Background(), func(ctx context.Context, g events.Grant) error {
		tokens = append(tokens, g.Token)
		err := errors.Join(add(ctx, "a", -5), add(ctx, "b", 5))
		fmt.Println("nodes:", len(srv.Children("/locks/accounts")))
		return err
	}))
	fmt.Println(balance, "one token:", tokens[0] == tokens[1] && tokens[1] == tokens[2])

	must(add(context.Background(), "b", 1)) // called on its own, it takes the lock
	fmt.Println(balance, "another token:", tokens[3] > tokens[2])
	// Output:
	// nodes: 1
	// map[a:5 b:5] one token: true
	// map[a:5 b:6] another token: true
}

// An inner acquisition that is held longer than the outer one keeps the lock. Work under
// it needs a context that does not end with the outer acquisition.
func ExampleReentrant_handOn() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/a", coordinator.Reentrant())
	first, grant := held(lock)
	second := lock.Acquire(first.Context(context.Background()))
	again, err := second.Wait(context.Background())
	must(err)
	work := second.Context(context.Background())

	first.Release()
	<-first.Done()
	fmt.Println("held:", second.Valid(), work.Err() == nil, again.Token == grant.Token)
	second.Release()
	fmt.Println("held:", second.Valid(), errors.Is(context.Cause(work), coordinator.ErrReleased))
	// Output:
	// held: true true true
	// held: false true
}

// From the second one on the node stays, and the next Acquire sends no request. Another
// session gets the lock as soon as it requests it.
func ExampleCached() {
	c, srv, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/counter", coordinator.Cached())
	var last events.Grant
	for range 4 {
		must(lock.Do(context.Background(), func(_ context.Context, g events.Grant) error {
			fmt.Println("another node:", g.Token > last.Token, "turn:", g.Turn)
			last = g
			return nil
		}))
	}
	other, err := coordinator.Connect(context.Background(), srv.Addr())
	must(err)
	defer func() { must(other.Close()) }()
	_, g := held(other.Mutex("/locks/counter"))
	fmt.Println("another node:", g.Token > last.Token, "turn:", g.Turn)
	// Output:
	// another node: true turn: 0
	// another node: true turn: 0
	// another node: false turn: 1
	// another node: false turn: 2
	// another node: true turn: 0
}

// A holder receives a revocation request, finishes its work, and releases in time.
func ExampleCoordinator_Revoke() {
	c, _, stop := exampleServer()
	defer stop()

	news := c.Events(context.Background())
	job, _ := held(c.Mutex("/locks/reindex", coordinator.Revocable()))
	go func() {
		for ev := range news {
			if r, ok := ev.(events.Revoked); ok && r.ID == job.ID() {
				fmt.Println("told, and in time:", time.Now().Before(r.Deadline))
				job.Release() // once the work is at a safe point
			}
		}
	}()

	must(c.Revoke(context.Background(), "/locks/reindex", time.Minute)) // from anywhere
	fmt.Println("held:", job.Valid())
	fmt.Println("no holder is left:", errors.Is(c.Revoke(context.Background(), "/locks/reindex", time.Minute), coordinator.ErrNotHeld))
	// Output:
	// told, and in time: true
	// held: false
	// no holder is left: true
}

// A holder that does not release loses its lock at the deadline. The context of its
// function ends with that.
func ExampleRevocable() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/reindex", coordinator.Revocable())
	err := lock.Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
		go func() { _ = c.Revoke(context.Background(), "/locks/reindex", 10*time.Millisecond) }()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, coordinator.ErrRevoked))
	// Output: true
}

func ExampleCoordinator_Semaphore() {
	c, _, stop := exampleServer()
	defer stop()

	exports := c.Semaphore("/limits/exports", 3)
	large := exports.Acquire(context.Background(), coordinator.Permits(2)) // both together, or none
	small := exports.Acquire(context.Background())
	fmt.Println((<-large.Granted()).Path, (<-small.Granted()).Path)

	other := c.Semaphore("/limits/exports", 5).Acquire(context.Background())
	<-other.Done()
	fmt.Println(errors.Is(other.Err(), coordinator.ErrSizeMismatch), other.Err())

	large.Release() // both permits
	small.Release()
	// Output:
	// /limits/exports /limits/exports
	// true zkgrant: semaphore size mismatch: /limits/exports has 3 permits, not 5
}

func ExampleSemaphore_Resize() {
	c, _, stop := exampleServer()
	defer stop()

	exports := c.Semaphore("/limits/exports", 1)
	first := exports.Acquire(context.Background())
	<-first.Granted()
	second := exports.Acquire(context.Background())
	must(exports.Resize(context.Background(), 2))
	<-second.Granted() // without a release
	fmt.Println(first.Valid(), second.Valid())
	// Output: true true
}

func ExampleAdoptSize() {
	c, _, stop := exampleServer()
	defer stop()

	old := c.Semaphore("/limits/exports", 2).Acquire(context.Background())
	<-old.Granted()
	// The program's next version has another default size, but does not insist on it.
	next := c.Semaphore("/limits/exports", 5, coordinator.AdoptSize())
	one := next.Acquire(context.Background())
	<-one.Granted()
	another := next.Acquire(context.Background(), coordinator.Try())
	<-another.Done()
	fmt.Println(another.Err())
	// Output: zkgrant: not acquired
}

func ExamplePermits() {
	c, _, stop := exampleServer()
	defer stop()

	for _, n := range []int{0, 4} {
		a := c.Semaphore("/limits/exports", 3).Acquire(context.Background(), coordinator.Permits(n))
		fmt.Println(a.Err())
	}
	fmt.Println(c.Mutex("/locks/a").Acquire(context.Background(), coordinator.Permits(1)).Err())
	// Output:
	// zkgrant: invalid number of permits: 0 of /limits/exports
	// zkgrant: invalid number of permits: 4 of /limits/exports, which has 3
	// zkgrant: wrong kind of lock: a mutex has no permits: /locks/a
}

// Money moves between two accounts: both are locked, or neither.
func ExampleCoordinator_Multi() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	from, to := c.Mutex("/accounts/anna"), c.Mutex("/accounts/ben")
	err := c.Multi(from, to).Do(ctx, func(_ context.Context, grant events.Grant) error {
		for _, m := range grant.Members {
			fmt.Println("holds", m.Path)
		}
		_, err := c.Multi(to, from).Acquire(ctx, coordinator.Try()).Wait(ctx) // in the other order
		fmt.Println("another transfer:", err)
		return nil
	})
	must(err)

	_, err = c.Multi(from, to, c.Mutex("/accounts/anna")).Acquire(ctx).Wait(ctx)
	fmt.Println(err)
	// Output:
	// holds /accounts/anna
	// holds /accounts/ben
	// another transfer: zkgrant: not acquired
	// zkgrant: the same lock twice: locks 0 and 2 are both at /accounts/anna
}

// Any process can observe the leader, candidate or not.
func ExampleElection_Observe() {
	c, _, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())

	leaders := c.Election("/service/leader").Observe(ctx)
	fmt.Println("a leader:", (<-leaders).Node != "")
	term := c.Election("/service/leader").Acquire(ctx, coordinator.Data([]byte("ann:80")))
	fmt.Printf("%s leads\n", (<-leaders).Data)
	term.Release()
	fmt.Println("a leader:", (<-leaders).Node != "")
	cancel()
	_, more := <-leaders
	fmt.Println("more news:", more)
	// Output:
	// a leader: false
	// ann:80 leads
	// a leader: false
	// more news: false
}

// A candidate leads for two terms, which any process can observe.
func ExampleElection_Terms() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	election := c.Election("/service/leader")
	leaders := election.Observe(ctx)
	fmt.Println("at first:", (<-leaders).Node == "")
	terms := 0
	for term, err := range election.Terms(ctx, coordinator.Data([]byte("ann:80"))) {
		must(err)
		leader := <-leaders
		fmt.Printf("%s leads: %v\n", leader.Data, leader.Token == term.Grant().Token)
		must(term.SetData(ctx, []byte("ann:81")))
		fmt.Printf("%s leads: %v\n", (<-leaders).Data, term.Valid())
		if terms++; terms == 2 {
			break // resign for good
		}
		term.Release() // resign, and queue up again behind all waiters
		fmt.Println("no leader:", (<-leaders).Node == "")
	}
	fmt.Println("no leader:", (<-leaders).Node == "")
	// Output:
	// at first: true
	// ann:80 leads: true
	// ann:81 leads: true
	// no leader: true
	// ann:80 leads: true
	// ann:81 leads: true
	// no leader: true
}

// The first contender claims a task. The others see which worker has it, and move on to
// the next task.
func ExampleCoordinator_Unfair() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	claim := func(worker, task string) *coordinator.Acquisition {
		a := c.Unfair("/tasks/"+coordinator.PathEscape(task)).Acquire(ctx, coordinator.Try(), coordinator.Data([]byte(worker)))
		_, err := a.Wait(ctx)
		var held *events.HeldError
		switch {
		case err == nil:
			fmt.Println(worker, "works on", task)
		case errors.As(err, &held):
			fmt.Printf("%s leaves %s to %s\n", worker, task, held.Holder.Data)
		default:
			must(err)
		}
		return a
	}
	first := claim("ann", "resize")
	claim("bob", "resize")
	claim("bob", "rotate")
	first.Release() // not finished: another worker may take it
	<-first.Done()
	claim("bob", "resize")
	// Output:
	// ann works on resize
	// bob leaves resize to ann
	// bob works on rotate
	// bob works on resize
}

func ExampleCoordinator_Locks() {
	c, _, stop := exampleServer()
	defer stop()

	ctx := context.Background()
	held(c.Mutex("/locks/report"), coordinator.Data([]byte("host-7")))
	<-c.Semaphore("/locks/exports", 5).Acquire(ctx, coordinator.Permits(2)).Granted()

	for lock, err := range c.Locks(ctx, "/locks") {
		if err != nil {
			fmt.Println(lock.Path, err) // reading it is denied; the walk goes on
			continue
		}
		for _, contender := range lock.Contenders {
			fmt.Printf("%s is a %v: %q %v %d\n", lock.Path, lock.Kind, contender.Data, contender.Holding, contender.Permits)
		}
	}
	// Output:
	// /locks/exports is a semaphore: "" true 2
	// /locks/report is a mutex: "host-7" true 0
}
