package interop

import (
	"slices"
	"testing"
)

// times returns the forms, repeated n times.
func times(n int, forms ...form) []form { return slices.Repeat(forms, n) }

// alike returns a team of n contenders of one form, plus one that is killed.
func alike(f family, n int, name form) team {
	return team{family: f, forms: times(n, name), killed: []form{name}}
}

func both(f family, writer, reader form) team {
	return team{family: f, forms: times(2, writer, reader), killed: []form{writer, reader}}
}

// downgrading returns a team with a writer that becomes a reader.
func downgrading(f family, how form) team {
	return team{family: f, forms: []form{how, formRead, formWrite, formRead}, killed: []form{how}}
}

func playAll(t *testing.T, all []workload) {
	t.Helper()
	for _, w := range played(all) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := enter(t).play(t, w)
			g.report(t)
			if w.blind != "" && g.referee.ignored == 0 {
				t.Errorf("%s was never inside beside a holder of zkgrant's; want at least once, so that zkgrant has waited behind it", w.blind)
			}
		})
	}
}

// TestOneQueue: contenders of several families share a path. Two contenders that exclude
// each other are never inside at once, and none enters before an older one, although a
// holder of each family is killed halfway through.
func TestOneQueue(t *testing.T) {
	t.Parallel()
	playAll(t, append(playsOf(curator, stock), []workload{
		{name: "mutexes of all three", teams: []team{
			alike(zkgrant, 3, formMutex), alike(curator, 3, formMutex), alike(stock, 3, formLock),
		}},
		{name: "mutex, cached, beside Curator's", tier: quick, teams: []team{
			{family: zkgrant, forms: []form{formCached}}, {family: curator, forms: times(2, formMutex), seldom: 20},
		}},
		{name: "writers that become readers", teams: []team{
			downgrading(zkgrant, formDowngrade), downgrading(curator, formInPlace),
		}},
		{name: "four permits, some of them taken together", teams: []team{
			{family: zkgrant, forms: times(3, several(2, 4), semaphore(4)), killed: []form{several(3, 4)}},
			alike(curator, 6, semaphore(4)),
		}},
		{name: "four permits, and six in Curator's opinion", teams: []team{
			alike(zkgrant, 6, semaphore(4)), alike(curator, 6, semaphore(6)),
		}},
	}...))
}

// TestOneQueueWithGuests is TestOneQueue for the families that can share a path with only
// some of zkgrant's forms.
func TestOneQueueWithGuests(t *testing.T) {
	t.Parallel()
	playAll(t, playsOf(kazoo, writeLock))
}

// TestWaitingBehind: zkgrant's contenders share a path with a family that does not see
// them. Contenders of that family enter beside any holder, but a zkgrant contender never
// enters beside an older one. In the first workload the directory is zkgrant's, in the
// others the other family's.
func TestWaitingBehind(t *testing.T) {
	t.Parallel()
	ours := both(zkgrant, formWrite, formRead)
	playAll(t, []workload{
		{name: "mutex, beside kazoo's", tier: quick, blind: kazoo, teams: []team{alike(zkgrant, 4, formMutex), alike(kazoo, 4, formLock)}},
		{name: "read and write, kazoo's", blind: kazoo, teams: []team{alike(kazoo, 4, formWrite), ours}},
		{name: "read and write, WriteLock's", blind: writeLock, teams: []team{alike(writeLock, 4, formWriteLock), ours}},
	})
}
