package coordinator_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// owners records the owner of each shard, as seen by the work on it.
type owners struct {
	t     *testing.T
	mu    sync.Mutex
	of    map[int]string
	moves int // shards that another process had before
	last  map[int]string
}

func (o *owners) start(shard int, who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other, owned := o.of[shard]; owned {
		o.t.Errorf("%s owns shard %d beside %s, want one owner", who, shard, other)
	}
	if last, had := o.last[shard]; had && last != who {
		o.moves++
	}
	o.of[shard], o.last[shard] = who, who
}

func (o *owners) stop(shard int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, shard)
}

// want waits until nothing moves any more. It checks that each shard has an owner, how
// many shards the processes own, and how many have moved since the last call. It returns
// the number of shards by process.
func (o *owners) want(when string, moves int, counts ...int) (each map[string]int) {
	o.t.Helper()
	time.Sleep(2 * timeoutOfAll)
	o.mu.Lock()
	defer o.mu.Unlock()
	each = map[string]int{}
	for _, who := range o.of {
		each[who]++
	}
	expect(o.t, slices.Equal(slices.Sorted(maps.Values(each)), counts) && o.moves == moves,
		"%s: the processes own %v, after %d moves; want %v after %d", when, each, o.moves, counts, moves)
	o.moves = 0
	return each
}

// TestShardsWithoutTheirMembers: a process that may not read who they are stops.
func TestShardsWithoutTheirMembers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		s := &Shards{C: c, Root: "/shards", Start: func(int) {}, Stop: func(int) {}}
		ended := inBackground(func() error { return s.Run(t.Context(), 3) })
		time.Sleep(time.Minute)
		strike(srv, zktest.Fail(zktest.NoAuth), func(q zktest.Request) bool {
			return q.Op == zktest.OpGetChildren2 && strings.HasPrefix(q.Path, "/shards/members")
		})
		srv.Cut(c.SessionID())
		err := eventstest.Receive(t, ended, "the end")
		expect(t, err != nil && !errors.Is(err, context.Canceled), "it ends with %v, want an error of its own", err)
	})
}

// TestShards checks the example: each shard has one owner at a time, no process has more
// than its share after 2 T, and no shard moves without need.
func TestShards(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		o := &owners{t: t, of: map[int]string{}, last: map[int]string{}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		join := func(who string) *coordinator.Coordinator {
			c := coordtest.Connect(t, srv)
			s := &Shards{C: c, Root: "/shards", Start: func(shard int) { o.start(shard, who) }, Stop: o.stop}
			running.Go(func() { _ = s.Run(ctx, 7) })
			return c
		}
		join("a")
		o.want("alone", 0, 7)
		b := join("b")
		o.want("one joins", 3, 3, 4)
		third := join("c")
		o.want("another one joins", 2, 2, 2, 3)

		stopped := b.SessionID()
		srv.Mute(stopped, true)
		o.want("one is stopped", 2, 3, 4)
		srv.Mute(stopped, false)
		need := o.want("it goes on", 2, 2, 2, 3)["c"]

		srv.Mute(third.SessionID(), true) // as if killed: nothing arrives from it any more
		o.want("one is killed", need, 3, 4)
		cancel()
		running.Wait()
	})
}
