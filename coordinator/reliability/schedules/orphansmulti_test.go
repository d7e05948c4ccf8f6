package schedules_test

import (
	"github.com/zkgrant/zkgrant/coordinator"
)

func asBoth(c *coordinator.Coordinator, path string) handle {
	return c.Multi(c.Mutex(path+"/x"), c.ReadWrite(path+"/y").Write())
}

func asOneOfBoth(c *coordinator.Coordinator, path string) handle { return c.Mutex(path + "/x") }

func usesOfMulti() []use {
	const deep, ours = "/new/and/deep", "/locks/ours"
	all := []use{
		{name: "both", path: deep, play: hold},
		{name: "both, in our directories", path: ours, ours: true, play: hold},
		{name: "both, after another who has both", path: ours, ours: true, others: true, first: asBoth, play: hold},
		{name: "both, after another who has one", path: deep, others: true, play: hold},
		{name: "waits for one of both, and leaves", path: ours, ours: true, others: true, play: giveUp},
		{name: "asks for both, and leaves at once", path: deep, play: giveUpAtOnce},
	}
	for i := range all {
		u := &all[i]
		u.lock, u.next, u.nodes, u.dirs = asBoth, asBoth, 2, []string{"/x", "/y"}
		if u.first == nil {
			u.first = asOneOfBoth
		}
	}
	return all
}
