package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about a list request that looks for an attempt's nodes in several places:
// what the findings mean.

// LooksForPermits reports whether to search for the GUID among the permits of a semaphore
// after listing its queue: the transaction that creates them may have been executed, and
// its answer lost. All of this follows the barrier, so the transaction was executed by
// then, or never will be.
func (e List) LooksForPermits(l Listed) bool { return e.Barrier && l.Own == Own{} }

// Permits returns the answer if there are permits of the attempt: the first one, the
// session that owns them, and how many are in use.
func (l Listed) Permits(first string, owner int64, inUse int32) Listed {
	l.Own, l.Entered, l.InUse = Own{Name: events.Name{Text: first}, Owner: owner}, true, inUse
	return l
}

// WithMembers returns the answer if these are the attempt's nodes, one per member of a
// multi-lock in order. A zero Own was not found.
func (l Listed) WithMembers(own []Own) Listed {
	found := 0
	for _, o := range own {
		if o == (Own{}) {
			continue
		}
		if found++; found == 1 {
			l.Own = o
		}
	}
	l.Parted = 0 < found && found < len(own)
	return l
}
