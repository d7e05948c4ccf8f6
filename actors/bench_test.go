package actors_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/actors"
)

// BenchmarkMailbox is what a message costs: to an idle actor, which starts a goroutine for it, and in a crowd.
func BenchmarkMailbox(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		var group actors.Group
		defer group.Close()
		handled := make(chan struct{})
		actor := actors.NewActor(&group, func(struct{}) { handled <- struct{}{} })
		b.ReportAllocs()
		for b.Loop() {
			actor.Post(struct{}{})
			<-handled
		}
	})
	b.Run("crowd", func(b *testing.B) {
		const crowd = 1000
		var group actors.Group
		defer group.Close()
		handled := make(chan struct{})
		left := 0
		actor := actors.NewActor(&group, func(n int) {
			if left += n; left == 0 {
				handled <- struct{}{}
			}
		})
		b.ReportAllocs()
		for b.Loop() {
			actor.Post(crowd) // so that it does not come to 0 before all were posted
			for range crowd {
				actor.Post(-1)
			}
			<-handled
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/crowd, "ns/message")
	})
	b.Run("from many", func(b *testing.B) {
		var group actors.Group
		actor := actors.NewActor(&group, func(struct{}) {})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				actor.Post(struct{}{})
			}
		})
		group.Close() // which waits for what was posted
	})
}
