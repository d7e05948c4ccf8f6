package coordinator_test

import (
	"context"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// BenchmarkCycle is an uncontended acquire and release against the server inside the process, over a pipe: what the
// library and the client cost, without a network and with a server that is almost nothing.
func BenchmarkCycle(b *testing.B) {
	for _, awaited := range []struct {
		name string
		yes  bool
	}{{"as felt", false}, {"release awaited", true}} {
		b.Run(awaited.name, func(b *testing.B) {
			srv := zktest.Start(b)
			ctx := context.Background()
			c, err := coordinator.Connect(ctx, srv.Addr(), srv.Option())
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					b.Error(err)
				}
			}()
			lock := c.Mutex(lockPath)
			b.ReportAllocs()
			var a *coordinator.Acquisition
			for b.Loop() {
				a = lock.Acquire(ctx)
				if _, err := a.Wait(ctx); err != nil {
					b.Fatal(err)
				}
				a.Release()
				if awaited.yes {
					<-a.Done()
				}
			}
			<-a.Done()
		})
	}
}
