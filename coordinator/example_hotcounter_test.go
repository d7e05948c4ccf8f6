package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// requests counts what a coordinator sends to the servers.
type requests struct{ atomic.Int64 }

func (r *requests) OnRequest(coordinator.RequestInfo) { r.Add(1) }

// Eight goroutines increment one counter. With Cached they hand the lock on among themselves, without a request.
// Then a fence is the pair of Token and Turn, which grows from grant to grant.
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
