package schedules_test

import (
	"context"
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func asTelling(c *coordinator.Coordinator, path string) handle {
	return c.Mutex(path, coordinator.DetectCrash())
}

// usesOfCrashes are of locks that tell of crashes, whose records count as nodes: the next one to release takes the latest along.
func usesOfCrashes() []use {
	const deep, ours = "/new/and/deep", "/locks/ours"
	all := []use{
		{name: "tells of crashes", path: deep, play: hold},
		{name: "tells of crashes, after another, in our directory", path: ours, ours: true, others: true, play: hold},
		{name: "tells of crashes, waits, and leaves", path: ours, ours: true, others: true, play: giveUp},
		{name: "tells of crashes, and leaves at once", path: ours, ours: true, play: giveUpAtOnce},
		{name: "crashes", path: ours, ours: true, nodes: 2, play: crash},
	}
	for i := range all {
		all[i].lock, all[i].first, all[i].next = asTelling, asTelling, asTelling
	}
	return all
}

// crash takes the lock once more, in Do, and panics there.
func crash(s *scene, a *coordinator.Acquisition) {
	hold(s, a)
	err := recovered(context.Background(), asTelling(s.victim, s.path), func(context.Context, events.Grant) error { panic(errPanic) })
	if !errors.Is(err, errPanic) {
		s.Errorf("ended with %v", err)
	}
}
