package coordinator

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Contended delivers a value when a contender arrives that this holder keeps out: once
// per contender, at most one per probe interval, and none before the Grant or after the
// end. The first call arms it. See docs/kinds.md.
func (a *Acquisition) Contended() <-chan struct{} { return a.actor.Contended(a.watchNewcomers) }

// watchNewcomers calls hear with the contenders that the Grant keeps out, and the others,
// until ctx ends.
func (a *Acquisition) watchNewcomers(
	ctx context.Context, grant events.Grant, hear func(kept, rest []string, interval time.Duration),
) {
	s := a.lock.c.session
	locks := []*Lock{a.lock}
	if a.lock.members != nil {
		locks = a.lock.members.locks
	}
	if recipes.Single(a.lock.rule) {
		return // waiters of an unfair lock have no nodes
	}
	places, own := make([]session.QueuePlace, len(locks)), nodesOf(grant)
	for i, l := range locks {
		places[i] = session.QueuePlace{Path: l.path, Form: l.form(), Names: true}
	}
	s.WatchQueues(ctx, places, func(seen []*session.QueueNodes) []events.Contender {
		var kept, rest []string
		for i, at := range seen {
			out, others := locks[i].keptOut(path.Base(own[i]), *at)
			for j, c := range slices.Concat(out, others) {
				who := session.AttemptOf(c.Text) // a contender at several of the paths counts once
				if who == c.Text {
					who = path.Join(locks[i].path, who)
				}
				if j < len(out) {
					kept = append(kept, who)
				} else {
					rest = append(rest, who)
				}
			}
		}
		hear(kept, rest, s.Interval())
		return nil
	})
}

// keptOut returns the contenders that the holder of the node keeps out, and those for
// which a semaphore has room.
func (l *Lock) keptOut(own string, at session.QueueNodes) (out, others []events.Name) {
	entered := map[string]bool{} // since the queue was listed
	for _, permit := range at.Permits {
		entered[session.AttemptOf(permit.Name)] = true
	}
	var queue []events.Name
	for _, f := range at.Queue {
		if name, _ := events.ParseName(f.Name); !entered[session.AttemptOf(f.Name)] {
			queue = append(queue, name)
		}
	}
	if s, ok := l.rule.(recipes.Semaphore); ok {
		size := at.Size
		if size == 0 {
			size = int(s.Size)
		}
		return recipes.Beyond(size-len(at.Permits), queue), queue
	}
	holder, _ := events.ParseName(own)
	return slices.DeleteFunc(queue, func(c events.Name) bool { return !recipes.KeepsOut(holder, c) }), nil
}
