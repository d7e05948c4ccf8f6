package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Shards shares shards evenly among the processes that are there. Each process owns at most
// ⌈shards/members⌉ and gives back what is too much when another one joins. The shares of all members
// add up to the shards, so a process that has its share waits for no more. There is no leader, no
// table of owners and no timer.
type Shards struct {
	C           *coordinator.Coordinator
	Root        string
	Start, Stop func(shard int) // of the work

	member *coordinator.Acquisition
	share  int                        // how many this process may own; 0 until it is a member
	asked  []*coordinator.Acquisition // by shard; nil: not asked for
	owned  map[int]bool
}

// Run owns some of n shards until ctx ends. Close the coordinator then. All of it is one loop.
func (s *Shards) Run(ctx context.Context, n int) error {
	s.asked, s.owned = make([]*coordinator.Acquisition, n), map[int]bool{}
	members := s.C.Semaphore(path.Join(s.Root, "members"), 1000) // room for everybody: a list of members
	news, queue := s.C.Events(ctx), members.Watch(ctx)
	defer func() {
		for shard := range s.owned {
			s.Stop(shard)
		}
	}()
	for {
		if s.member == nil {
			s.member = members.Acquire(ctx)
		}
		select {
		case ev := <-news:
			if err := s.handle(ev); err != nil {
				return err
			}
		case seen := <-queue:
			s.share = 0 // a process that others do not count owns nothing
			rank := slices.IndexFunc(seen, func(m coordinator.Contender) bool { return m.Session == s.C.SessionID() })
			if rank >= 0 {
				s.share = (n + len(seen) - 1 - rank) / len(seen)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		s.settle(ctx)
	}
}

// handle forgets what is over, and owns what is granted unless that is too much.
func (s *Shards) handle(ev coordinator.Event) error {
	switch ev := ev.(type) {
	case coordinator.Grant:
		if ev.ID == s.member.ID() {
			<-s.member.Granted()
		} else if shard := s.shardOf(ev.ID); shard >= 0 && len(s.owned) < s.share {
			<-s.asked[shard].Granted()
			s.owned[shard] = true
			s.Start(shard)
		}
	case coordinator.Lost:
		s.forget(ev.ID)
	case coordinator.Ended:
		if s.forget(ev.ID) && ev.Err != nil {
			return ev.Err // bad arguments, or the servers refuse
		}
	}
	return nil
}

// settle asks for shards while there are too few, and gives back what is too much.
func (s *Shards) settle(ctx context.Context) {
	for shard, a := range s.asked {
		switch enough := len(s.owned) >= s.share; {
		case a == nil && !enough:
			s.asked[shard] = s.C.Mutex(path.Join(s.Root, strconv.Itoa(shard))).Acquire(ctx)
		case a != nil && enough && (!s.owned[shard] || len(s.owned) > s.share):
			s.forget(a.ID())
			a.Release() // after the work has stopped: another process may begin
		}
	}
}

// forget stops the work on a shard. It reports whether the acquisition was ours until now.
func (s *Shards) forget(id uint64) bool {
	if s.member != nil && id == s.member.ID() {
		s.member, s.share = nil, 0
		return true
	}
	shard := s.shardOf(id)
	if shard < 0 {
		return false
	}
	if s.owned[shard] {
		s.Stop(shard)
	}
	delete(s.owned, shard)
	s.asked[shard] = nil
	return true
}

// shardOf returns the shard that an acquisition is for, or -1.
func (s *Shards) shardOf(id uint64) int {
	return slices.IndexFunc(s.asked, func(a *coordinator.Acquisition) bool { return a != nil && a.ID() == id })
}

func Example_shards() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := coordinator.Connect(ctx, srv.Addr())
	must(err)
	owned := 0
	shards := &Shards{C: c, Root: "/shards", Stop: func(int) {}, Start: func(int) {
		if owned++; owned == 12 {
			fmt.Println("alone, it owns all 12 shards")
			cancel()
		}
	}}
	fmt.Println(shards.Run(ctx, 12))
	must(c.Close())
	// Output:
	// alone, it owns all 12 shards
	// context canceled
}
