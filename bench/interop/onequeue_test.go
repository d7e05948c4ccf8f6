package interop

import (
	"testing"
)

// times returns a form for each of n contenders.
func times(n int, forms ...form) (all []form) {
	for range n {
		all = append(all, forms...)
	}
	return all
}

// TestOneQueue: contenders of several families share a path. Two contenders that exclude each other are never inside together, and none
// enters ahead of an older one, although a holder of each family is killed in the middle.
func TestOneQueue(t *testing.T) {
	t.Parallel()
	alike := func(f family, n int, name form) team {
		return team{family: f, forms: times(n, name), killed: []form{name}}
	}
	both := func(f family) team {
		return team{family: f, forms: times(2, formWrite, formRead), killed: []form{formWrite, formRead}}
	}
	downgrading := func(f family, how form) team {
		return team{family: f, forms: []form{how, formRead, formWrite, formRead}, killed: []form{how}}
	}
	for _, w := range played([]workload{
		{name: "mutex, Curator's", tier: quickWithDeaths, teams: []team{alike(curator, 4, formMutex), alike(zkgrant, 4, formMutex)}},
		{name: "mutex, beside Curator's", teams: []team{alike(zkgrant, 4, formMutex), alike(curator, 4, formMutex)}},
		{name: "mutex, go-zookeeper's", tier: quick, teams: []team{alike(stock, 4, formLock), alike(zkgrant, 4, formMutex)}},
		{name: "mutex, beside go-zookeeper's", teams: []team{alike(zkgrant, 4, formMutex), alike(stock, 4, formLock)}},
		{name: "mutexes of all three", teams: []team{
			alike(zkgrant, 3, formMutex), alike(curator, 3, formMutex), alike(stock, 3, formLock),
		}},
		{name: "mutex, cached, beside Curator's", tier: quick, teams: []team{
			{family: zkgrant, forms: []form{formCached}}, {family: curator, forms: times(2, formMutex), seldom: 20},
		}},
		{name: "read and write, Curator's", teams: []team{both(curator), both(zkgrant)}},
		{name: "read and write, beside Curator's", tier: quick, teams: []team{both(zkgrant), both(curator)}},
		{name: "writers that become readers", teams: []team{
			downgrading(zkgrant, formDowngrade), downgrading(curator, formInPlace),
		}},
		{name: "go-zookeeper's, beside readers and writers", teams: []team{
			downgrading(zkgrant, formDowngrade), alike(stock, 4, formLock),
		}},
		{name: "four permits, Curator's", tier: quick, teams: []team{
			alike(curator, 6, semaphore(4)), alike(zkgrant, 6, semaphore(4)),
		}},
		{name: "four permits, beside Curator's", teams: []team{
			alike(zkgrant, 6, semaphore(4)), alike(curator, 6, semaphore(4)),
		}},
		{name: "four permits, some of them taken together", teams: []team{
			{family: zkgrant, forms: times(3, several(2, 4), semaphore(4)), killed: []form{several(3, 4)}},
			alike(curator, 6, semaphore(4)),
		}},
		{name: "four permits, and six in Curator's opinion", teams: []team{
			alike(zkgrant, 6, semaphore(4)), alike(curator, 6, semaphore(6)),
		}},
		{name: "one permit, Curator's semaphore mutex", teams: []team{
			alike(curator, 4, formSemaphoreMutex), alike(zkgrant, 4, semaphore(1)),
		}},
	}) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			enter(t).play(t, w).report(t)
		})
	}
}
