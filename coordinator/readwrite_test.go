package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestDataThatFitBesideOnePath: the request of a reader in a writer's place names two
// nodes. A server would drop the connection at a request that is too large, at every
// retry.
func TestDataThatFitBesideOnePath(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		path := "/" + strings.Repeat("x", 3000)
		rw := c.ReadWrite(path)
		write, _ := coordtest.Hold(t, rw.Write())
		for size := range 5 {
			data := make([]byte, 1<<20-1-(size+1)*1500)
			ctx := write.Context(within(t, time.Minute))
			beside := rw.Read().Acquire(ctx, coordinator.Data(data))
			_, err := beside.Wait(ctx)
			tooLarge := map[bool]error{true: coordinator.ErrTooLarge}[size < 4]
			expectError(t, err, tooLarge, fmt.Sprintf("%d bytes beside the path", len(data)))
			coordtest.End(beside)
		}
		coordtest.NotLost(t, write)
		expect(t, c.State() == coordinator.StateConnected, "after that the state is %v, want connected", c.State())
	})
}

// TestAReleaseOfAReadWriteLockWakesOnlyThoseItAdmits: a waiter that is not woken sends no
// request.
func TestAReleaseOfAReadWriteLockWakesOnlyThoseItAdmits(t *testing.T) {
	const readers, sessions = 10, 3
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, sessions)
		var all []*coordinator.Acquisition
		join := func(l func(*coordinator.ReadWrite) *coordinator.Lock) {
			all = append(all, coordtest.Queue(l(cs[len(all)%sessions].ReadWrite(lockPath))))
		}
		for range 2 {
			join((*coordinator.ReadWrite).Write)
			for range readers {
				join((*coordinator.ReadWrite).Read)
			}
		}
		join((*coordinator.ReadWrite).Write)
		release := func(i, requests int, what string) {
			expectEqual(t, coordtest.Cost(ms, all[i].Release).Requests, requests, "%s: requests", what)
		}
		want := func(first, last int) {
			t.Helper()
			for i, a := range all {
				expectEqual(t, a.Valid(), i >= first && i <= last, "%d holds, as %d to %d should", i, first, last)
			}
		}
		want(0, 0)
		release(0, 1, "a writer, and each reader knows that it is next")
		want(1, readers)
		for i := 1; i < readers; i++ {
			release(i, 1, "a reader beside others that are younger")
		}
		want(readers, readers)
		const next = readers + 1
		// Delete. Other readers were ahead of this reader, so the writer reads the floor,
		// then looks at the next node, then lists the directory and reads its own node.
		release(readers, 1+1+1+2, "the last reader")
		want(next, next)
		// The readers after it were behind two writers, and read the floor unless they
		// belong to its session.
		const here = 3
		release(next, 1+readers-here, "a writer that has waited")
		want(next+1, 2*readers+1)
		// Younger readers are released first: the writer behind them waits for the
		// youngest.
		release(2*readers+1, 1+2, "the youngest reader, and the writer moves up")
		want(next+1, 2*readers)
		release(next+3, 1, "one in the middle")
	})
}

// TestAReaderCostsOneRequestAloneAndThreeBesideAnother: create, list, and read its own
// node.
func TestAReaderCostsOneRequestAloneAndThreeBesideAnother(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		read := cs[0].ReadWrite(lockPath).Read()
		costs := func(what string, want int, do func()) {
			expectEqual(t, coordtest.Cost(ms, do).Requests, want, "%s: requests", what)
		}
		var first, second *coordinator.Acquisition
		costs("a reader alone", 1, func() { first = coordtest.Queue(read) })
		costs("a reader beside another", 3, func() { second = coordtest.Queue(read) }) // create with the marker, list, own node
		coordtest.NotLost(t, first)
		coordtest.NotLost(t, second)
		costs("two releases", 2, func() { coordtest.End(first); coordtest.End(second) })
		rw := cs[0].ReadWrite(lockPath)
		write, _ := coordtest.Hold(t, rw.Write())
		var inside *coordinator.Acquisition
		costs("a writer becomes a reader", 2, func() {
			inside = rw.Read().Acquire(write.Context(t.Context()))
			coordtest.Soon(t, inside)
			coordtest.End(write)
		})
		coordtest.NotLost(t, inside)
	})
}

// TestAReaderThatAsksToWriteIsToldTheWayOut: the error names both ways out, also in a
// multi-lock, and names none if none applies.
func TestAReaderThatAsksToWriteIsToldTheWayOut(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		rw, kazoo := c.ReadWrite(coordtest.LockPath), c.ReadWrite("/locks/kazoo", coordinator.AsKazoo())
		const short = "zkgrant: the context already holds this lock"
		wayOut := func(path string) string {
			return short + " for reading: " + path + ": write with Acquisition.Txn and a check of the version that was read, " +
				"or release the read lock before acquiring the write lock"
		}
		for name, tt := range map[string]struct {
			held, asked *coordinator.Lock
			want        string
		}{
			"a reader to write":                  {rw.Read(), rw.Write(), wayOut(coordtest.LockPath)},
			"with kazoo's names":                 {kazoo.Read(), kazoo.Write(), wayOut("/locks/kazoo")},
			"to write in a multi-lock":           {rw.Read(), c.Multi(c.Mutex("/locks/m"), rw.Write()), "member " + coordtest.LockPath + ": " + wayOut(coordtest.LockPath)},
			"a reader in a multi-lock, to write": {c.Multi(c.Mutex("/locks/m"), rw.Read()), rw.Write(), wayOut(coordtest.LockPath)},
			"a reader to read":                   {rw.Read(), rw.Read(), short + ": " + coordtest.LockPath},
			"a writer to write":                  {rw.Write(), rw.Write(), short + ": " + coordtest.LockPath},
		} {
			held, _ := coordtest.Hold(t, tt.held)
			err := coordtest.EndOf(t, tt.asked.Acquire(held.Context(t.Context())))
			expectError(t, err, coordinator.ErrDeadlock, name)
			expect(t, fmt.Sprint(err) == tt.want, "%s: ended with\n%v, want\n%v", name, err, tt.want)
			coordtest.End(held)
		}
	})
}
