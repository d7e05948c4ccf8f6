package events_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// BenchmarkParseName is what each name of a listing costs.
func BenchmarkParseName(b *testing.B) {
	for _, c := range []struct {
		name, text string
		kind       events.Kind
	}{
		{"ours", "_c_0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-lock-0000000042", events.KindLock},
		{"kazoo", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__lock__0000000042", events.KindKazooLock},
		{"WriteLock", "x-72057594037927936-0000000042", events.KindWriteLock},
		{"garbage", "_c_0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-latch-000000004", 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var got events.Name
			for b.Loop() {
				got, _ = events.ParseName(c.text)
			}
			if got.Kind != c.kind {
				b.Fatalf("%+v", got)
			}
		})
	}
}
