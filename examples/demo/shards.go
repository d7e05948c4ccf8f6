package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// member shares the shards with the other members, in one loop: Example_shards of package
// coordinator, with faults. Its list of members is the queue of a lock that all of them
// hold for reading. Unlike a semaphore, it leaves no node behind.
type member struct {
	*body

	c     *coordinator.Coordinator
	path  string
	group *coordinator.Group
	entry *coordinator.Acquisition   // in the list of members
	share int                        // how many shards it may own; 0 until it is a member
	asked []*coordinator.Acquisition // by shard; nil: not requested
	owned map[int]bool
}

// shareShards runs a member until ctx ends.
func shareShards(ctx context.Context, where *servers, b *body) error {
	c, err := coordinator.Open(where.zk.Servers, where.options(coordinator.WithDialer(b.network.Dial))...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // if no server is reachable, the session times out
	m := &member{
		body: b, c: c, path: lockPath + "/" + shardsSide, group: coordinator.NewGroup(),
		asked: make([]*coordinator.Acquisition, shards), owned: map[int]bool{},
	}
	return m.run(ctx)
}

func (m *member) run(ctx context.Context) (err error) {
	members := m.c.ReadWrite(m.path + "/members").Read()
	queue, done := members.Watch(ctx), ctx.Done()
	for {
		select {
		case ev, open := <-m.group.Events():
			if !open {
				return err
			}
			err = errors.Join(err, m.handle(ev))
		case seen, open := <-queue:
			if !open && ctx.Err() == nil {
				err = cmp.Or(err, errors.New("the list of members cannot be read any more"))
			}
			m.share = 0 // a member that the others do not count owns nothing
			rank := slices.IndexFunc(seen, func(c coordinator.Contender) bool { return c.Session == m.c.SessionID() })
			if rank >= 0 {
				m.share = (shards + len(seen) - 1 - rank) / len(seen)
			}
		case wake := <-m.pause:
			m.standStill(ctx, wake)
		case <-m.handOn: // a member has no lock to hand on
		case <-done:
		}
		if err != nil || ctx.Err() != nil {
			queue, done = nil, nil
			m.leave()
			continue // read on to the last Ended
		}
		if m.entry == nil {
			m.entry = m.group.Acquire(ctx, members, coordinator.Data([]byte(m.name)))
		}
		m.settle(ctx)
	}
}

// handle takes over a granted shard, unless it exceeds the share: then settle releases
// it.
func (m *member) handle(ev coordinator.Event) error {
	switch ev := ev.(type) {
	case coordinator.Grant:
		if shard := m.shardOf(ev.ID); shard >= 0 && len(m.owned) < m.share {
			m.owned[shard] = true
			m.say(shard, holds)
		}
	case coordinator.Lost:
		m.stop(m.shardOf(ev.ID))
	case coordinator.Ended: // it may be requested again
		if m.entry != nil && ev.ID == m.entry.ID() {
			m.entry, m.share = nil, 0
		} else if shard := m.shardOf(ev.ID); shard >= 0 {
			m.stop(shard)
			m.asked[shard] = nil
		}
		var lost *coordinator.LostError
		if ev.Err != nil && !errors.As(ev.Err, &lost) && !errors.Is(ev.Err, coordinator.ErrNotAcquired) {
			return ev.Err // bad arguments, or refused by the servers
		}
	default: // a group also delivers the session's events
	}
	return nil
}

// settle requests shards while the member owns too few, and releases the excess.
func (m *member) settle(ctx context.Context) {
	for shard, a := range m.asked {
		switch enough := len(m.owned) >= m.share; {
		case a == nil && !enough:
			lock := m.c.Mutex(fmt.Sprint(m.path, "/", shard))
			m.asked[shard] = m.group.Acquire(ctx, lock, coordinator.Data([]byte(m.name)))
		case a != nil && enough && (!m.owned[shard] || len(m.owned) > m.share):
			m.stop(shard)
			a.Release() // after the work has stopped: another member may begin
		}
	}
}

// standStill stops all work until wake is closed or ctx ends. Before the next step, it
// checks Valid on each lock.
func (m *member) standStill(ctx context.Context, wake <-chan struct{}) {
	for shard := range m.owned {
		m.say(shard, still)
	}
	select {
	case <-wake:
	case <-ctx.Done():
		return
	}
	for shard := range m.owned {
		if m.asked[shard].Valid() {
			m.say(shard, holds)
		} else {
			m.stop(shard)
		}
	}
}

// stop stops the work on a shard that the member owns.
func (m *member) stop(shard int) {
	if m.owned[shard] {
		delete(m.owned, shard)
		m.say(shard, away)
	}
}

// leave stops all work and releases everything.
func (m *member) leave() {
	for shard := range m.owned {
		m.stop(shard)
	}
	m.group.Close()
}

func (m *member) say(shard int, as state) {
	m.log.tell(m.body, func(p *picture, at time.Duration) { p.own(m.name, shard, as, at) })
}

// shardOf returns the shard that an acquisition is for, or -1.
func (m *member) shardOf(id uint64) int {
	return slices.IndexFunc(m.asked, func(a *coordinator.Acquisition) bool { return a != nil && a.ID() == id })
}
