package schedules_test

import (
	"context"
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
)

func toRead(c *coordinator.Coordinator, path string) handle {
	return c.ReadWrite(path).Read()
}

func toWrite(c *coordinator.Coordinator, path string) handle {
	return c.ReadWrite(path).Write()
}

func toUpgrade(c *coordinator.Coordinator, path string) handle {
	return c.ReadWrite(path).Upgradable()
}

func usesOfReadWrite() []use {
	const old, ours = "/locks/a", "/locks/ours"
	all := []use{
		{name: "reads", path: "/new/and/deep", lock: toRead, play: hold},
		{name: "reads, in our directory", path: ours, ours: true, lock: toRead, play: hold},
		{name: "reads beside another", path: ours, ours: true, others: true, lock: toRead, first: toRead, play: hold},
		{name: "reads after a writer", path: old, others: true, lock: toRead, play: hold},
		{name: "writes after a reader", path: ours, ours: true, others: true, lock: toWrite, first: toRead, play: hold},
		{name: "waits to read, and leaves", path: ours, ours: true, others: true, lock: toRead, play: giveUp},
		{name: "reads, and leaves at once", path: ours, ours: true, others: true, lock: toRead, play: giveUpAtOnce},
		{name: "becomes a reader", path: old, lock: toWrite, nodes: 2, play: goOnReading},
		{name: "waits, and becomes a reader", path: ours, ours: true, others: true, lock: toWrite, nodes: 2, play: goOnReading},
		{name: "becomes a reader in haste", path: ours, ours: true, lock: toWrite, nodes: 2, play: goOnReadingInHaste},
		{name: "upgrades", path: old, lock: toUpgrade, nodes: 2, play: upgrade},
		{name: "upgrades beside a reader", path: ours, ours: true, others: true, lock: toUpgrade, first: toRead, nodes: 2, play: upgrade},
		{name: "upgrades in haste", path: ours, ours: true, others: true, lock: toUpgrade, first: toRead, nodes: 2, play: upgradeInHaste},
		{name: "asks to upgrade, and leaves", path: ours, ours: true, others: true, lock: toUpgrade, first: toRead, nodes: 2, play: giveUpAnUpgrade},
	}
	for i := range all {
		if all[i].first == nil {
			all[i].first = toWrite
		}
		all[i].next = toWrite
	}
	return all
}

// goOnReading becomes a reader when it may write.
func goOnReading(s *scene, write *coordinator.Acquisition) {
	_ = await(s, "the write lock is granted", write.Granted())
	read := toRead(s.victim, s.path).Acquire(write.Context(context.Background()))
	select {
	case <-read.Granted():
		write.Release()
		s.holding(read)
	case <-write.Lost(): // and the wait ends, or has nothing to wait for any more
		if !s.expires {
			s.Error("lost the write lock")
		}
	}
	read.Release()
	_ = await(s, "it has read", read.Done())
	write.Release()
}

// goOnReadingInHaste gives the write lock back before it knows whether it may read.
func goOnReadingInHaste(s *scene, write *coordinator.Acquisition) {
	_ = await(s, "the write lock is granted", write.Granted())
	read := toRead(s.victim, s.path).Acquire(context.WithoutCancel(write.Context(context.Background())))
	write.Release()
	select {
	case <-read.Granted():
		s.holding(read)
		read.Release()
	case <-read.Done():
		if err := read.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
			s.Errorf("ended with %v", err)
		}
	}
	_ = await(s, "it has read", read.Done())
}

// upgrade writes in the place of an upgradable reader, which is released when that is done.
func upgrade(s *scene, up *coordinator.Acquisition) {
	_ = await(s, "the upgradable lock is granted", up.Granted())
	write := toWrite(s.victim, s.path).Acquire(up.Context(context.Background()))
	select {
	case <-write.Granted():
		s.holding(write)
	case <-up.Lost(): // and the wait ends, or has nothing to wait for any more
		if !s.expires {
			s.Error("lost the upgradable lock")
		}
	}
	write.Release()
	_ = await(s, "it has written", write.Done())
	up.Release()
}

// upgradeInHaste gives the upgradable lock back before it knows whether it may write.
func upgradeInHaste(s *scene, up *coordinator.Acquisition) {
	_ = await(s, "the upgradable lock is granted", up.Granted())
	write := toWrite(s.victim, s.path).Acquire(context.WithoutCancel(up.Context(context.Background())))
	up.Release()
	select {
	case <-write.Granted():
		s.holding(write)
		write.Release()
	case <-write.Done():
		if err := write.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
			s.Errorf("ended with %v", err)
		}
	}
	_ = await(s, "it has written", write.Done())
}

// giveUpAnUpgrade does not wait for the reader to leave, and gives both back at once.
func giveUpAnUpgrade(s *scene, up *coordinator.Acquisition) {
	_ = await(s, "the upgradable lock is granted", up.Granted())
	write := toWrite(s.victim, s.path).Acquire(up.Context(context.Background()))
	giveUp(s, write)
	up.Release()
	_ = await(s, "it does not write", write.Done())
}
