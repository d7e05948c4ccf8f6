package schedules_test

import "github.com/zkgrant/zkgrant/coordinator"

func asUnfair(c *coordinator.Coordinator, path string) handle { return c.Unfair(path) }

func usesOfUnfair() []use {
	const fresh, known = "/new/and/deep", "/tasks/a"
	all := []use{
		{name: "claims", path: fresh, play: hold},
		{name: "claims again", path: known, ours: true, play: hold},
		{name: "claims after another", path: known, others: true, play: hold},
		{name: "waits for a claim, and leaves", path: known, others: true, play: giveUp},
		{name: "claims, and leaves at once", path: known, ours: true, play: giveUpAtOnce},
		{name: "asks for a claim, and leaves at once", path: known, others: true, play: giveUpAtOnce},
	}
	for i := range all {
		all[i].lock, all[i].first, all[i].next, all[i].itself = asUnfair, asUnfair, asUnfair, true
	}
	return all
}
