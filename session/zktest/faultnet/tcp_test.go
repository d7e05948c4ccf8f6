package faultnet_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// The whole library over sockets. The answer to each seventh write, create or delete, is
// lost. Other answers may be late, and the connections are cut in between.
func TestOverTCP(t *testing.T) {
	srv := zktest.Start(t)
	var writes atomic.Int64
	network := faultnet.New(new(net.Dialer).DialContext, func(f faultnet.Frame) faultnet.Verdict {
		switch {
		case f.Direction == faultnet.Up || f.Op != zktest.OpCreate && f.Op != zktest.OpMulti && f.Op != zktest.OpDelete:
			return faultnet.Pass()
		case writes.Add(1)%7 == 0:
			return faultnet.CutBefore()
		default:
			return faultnet.HoldFor(time.Millisecond)
		}
	})
	defer network.Close()
	c, err := coordinator.Connect(t.Context(), srv.Addr(), coordinator.WithDialer(network.Dial))
	eventstest.Must(t, err)
	var last int64
	for i := range 9 {
		switch i {
		case 4:
			network.Cut()
		case 8: // a partition is short here, because the clock is real
			network.Partition()
			time.AfterFunc(20*time.Millisecond, network.Heal)
		}
		a := c.Mutex("/locks/a").Acquire(t.Context())
		grant, err := a.Wait(t.Context())
		if err != nil || grant.Token <= last || len(srv.Children("/locks/a")) != 1 {
			t.Fatalf("the grant is %+v, %v, among nodes %v; want a token above %d and the one node",
				grant, err, srv.Children("/locks/a"), last)
		}
		last = grant.Token
		a.Release()
		<-a.Done()
	}
	eventstest.Check(t, c.Close())
	eventstest.Equal(t, len(srv.Children("/locks/a")), 0, "nodes in the end")
	eventstest.Equal(t, network.Open(), 0, "connections in the end")
	eventstest.Expect(t, writes.Load() >= 16, "%d writes, want 16 or more", writes.Load())
}

// A connection that was closed during a partition that never ended is closed with the
// network.
func TestCloseDuringAPartitionOverTCP(t *testing.T) {
	srv := zktest.Start(t)
	network := faultnet.New(new(net.Dialer).DialContext, nil)
	conn, err := network.Dial(t.Context(), "tcp", srv.Addr())
	eventstest.Must(t, err)
	network.Partition()
	eventstest.Check(t, conn.Close())
	eventstest.Eventually(t, "the server has the connection", func() bool { return srv.Connections() == 1 })
	network.Close()
	eventstest.Eventually(t, "the server hears of the end", func() bool { return srv.Connections() == 0 })
}

func Example() {
	srv, err := zktest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	// The node is created, and the client cannot know that: the connection ends instead
	// of the answer.
	var cut atomic.Bool
	network := faultnet.New(srv.DialContext, func(f faultnet.Frame) faultnet.Verdict {
		if f.Direction == faultnet.Down && f.Op == zktest.OpCreate && f.Code == 0 && cut.CompareAndSwap(false, true) {
			return faultnet.CutBefore()
		}
		return faultnet.Pass()
	})
	c, err := coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithDialer(network.Dial))
	if err != nil {
		log.Print(err)
		return
	}
	lock := c.Mutex("/locks/a").Acquire(context.Background())
	if _, err := lock.Wait(context.Background()); err != nil {
		log.Print(err)
	}
	fmt.Println("cut:", cut.Load(), "nodes:", len(srv.Children("/locks/a"))) // the one that was found again
	if err := c.Close(); err != nil {
		log.Print(err)
	}
	fmt.Println("nodes:", len(srv.Children("/locks/a")))
	// Output:
	// cut: true nodes: 1
	// nodes: 0
}
