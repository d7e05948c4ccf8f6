package coordinator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Shards divides shards evenly among the running processes. Each process owns at most
// ⌈shards/members⌉, and gives back the excess when another one joins. The shares of all
// members add up to the number of shards, so a process that has its share waits for no
// more. There is no leader, no table of owners and no timer.
type Shards struct {
	C           *coordinator.Coordinator
	Root        string
	Start, Stop func(shard int) // of the work

	group  *coordinator.Group
	member *coordinator.Acquisition
	share  int                        // how many shards this process may own; 0 until it is a member
	asked  []*coordinator.Acquisition // by shard; nil: not requested
	owned  map[int]bool
}

// Run owns some of n shards until ctx ends, and returns when all of them are given back.
// It is a single loop: Start and Stop must be quick, because the next Lost waits for
// them.
func (s *Shards) Run(ctx context.Context, n int) (err error) {
	s.asked, s.owned, s.group = make([]*coordinator.Acquisition, n), map[int]bool{}, coordinator.NewGroup()
	members := s.C.Semaphore(path.Join(s.Root, "members"), 1000) // large enough for everyone: the list of members
	queue, done := members.Watch(ctx), ctx.Done()
	for {
		select {
		case ev, open := <-s.group.Events():
			if !open {
				return cmp.Or(err, context.Cause(ctx))
			}
			err = cmp.Or(err, s.handle(ev))
		case seen, open := <-queue:
			if !open && ctx.Err() == nil {
				err = cmp.Or(err, errors.New("the list of members cannot be read any more"))
			}
			s.share = 0 // a process that the others do not count owns nothing
			rank := slices.IndexFunc(seen, func(m coordinator.Contender) bool { return m.Session == s.C.SessionID() })
			if rank >= 0 {
				s.share = (n + len(seen) - 1 - rank) / len(seen)
			}
		case <-done:
		}
		if err != nil || ctx.Err() != nil {
			queue, done = nil, nil
			s.leave()
			continue // until the last Ended
		}
		if s.member == nil {
			s.member = s.group.Acquire(ctx, members)
		}
		s.settle(ctx)
	}
}

// handle takes over a granted shard, unless that is too many: then settle gives it back.
func (s *Shards) handle(ev coordinator.Event) error {
	switch ev := ev.(type) {
	case coordinator.Grant:
		if shard := s.shardOf(ev.ID); shard >= 0 && len(s.owned) < s.share {
			s.owned[shard] = true
			s.Start(shard)
		}
	case coordinator.Lost:
		s.stop(s.shardOf(ev.ID))
	case coordinator.Ended: // it may be requested again
		if s.member != nil && ev.ID == s.member.ID() {
			s.member, s.share = nil, 0
		} else if shard := s.shardOf(ev.ID); shard >= 0 {
			s.stop(shard)
			s.asked[shard] = nil
		}
		var lost *coordinator.LostError
		if ev.Err != nil && !errors.As(ev.Err, &lost) && !errors.Is(ev.Err, coordinator.ErrNotAcquired) {
			return ev.Err // bad arguments, or refused by the servers
		}
	}
	return nil
}

// settle requests shards while there are too few, and gives back the excess.
func (s *Shards) settle(ctx context.Context) {
	for shard, a := range s.asked {
		switch enough := len(s.owned) >= s.share; {
		case a == nil && !enough:
			s.asked[shard] = s.group.Acquire(ctx, s.C.Mutex(path.Join(s.Root, strconv.Itoa(shard))))
		case a != nil && enough && (!s.owned[shard] || len(s.owned) > s.share):
			s.stop(shard)
			a.Release() // only after the work has stopped: another process may begin
		}
	}
}

// stop stops the work on a shard if it is owned.
func (s *Shards) stop(shard int) {
	if s.owned[shard] {
		delete(s.owned, shard)
		s.Stop(shard)
	}
}

// leave stops all work and gives everything back.
func (s *Shards) leave() {
	for shard := range s.owned {
		s.stop(shard)
	}
	s.group.Close()
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
