package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTwoReadersInOnePlace: a writer may become several readers, and each has the writer's place until the last of
// them has left.
func TestTwoReadersInOnePlace(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw := a.ReadWrite("/locks/rw")
		write := rw.Write().Acquire(t.Context())
		coordtest.Soon(t, write)
		var readers []*coordinator.Acquisition
		for range 2 {
			reader := rw.Read().Acquire(write.Context(t.Context()))
			coordtest.Soon(t, reader)
			readers = append(readers, reader)
		}
		writer := b.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		synctest.Wait()
		write.Release()
		for _, reader := range readers {
			time.Sleep(time.Second)
			if !reader.Valid() || writer.Valid() {
				t.Errorf("the reader holds: %v; the writer behind it: %v", reader.Valid(), writer.Valid())
			}
			reader.Release()
		}
		coordtest.Soon(t, writer)
	})
}

// TestAPlaceIsTakenOnlyFromAWriteNodeThatStands: what the servers know of the write node counts, and not what its owner
// believes, who is told of its end later.
func TestAPlaceIsTakenOnlyFromAWriteNodeThatStands(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		write := a.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		grant := coordtest.Soon(t, write)
		next := b.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		synctest.Wait()
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session == a.SessionID() && q.Op == zktest.OpMulti {
				srv.Intercept(nil)
				if err := srv.Delete(grant.Node); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass()
		})
		// Its wait does not end with the write lock, of whose loss it would hear before the answer.
		read := a.ReadWrite("/locks/rw").Read().Acquire(context.WithoutCancel(write.Context(t.Context())))
		coordtest.Soon(t, next)
		select {
		case <-read.Done():
			if err := read.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
				t.Errorf("ended with %v", err)
			}
		case got := <-read.Granted():
			t.Errorf("%+v in a place that the servers gave away", got)
		case <-time.After(time.Minute):
			t.Error("neither granted nor over")
		}
		if nodes := srv.Children("/locks/rw"); len(nodes) != 1 {
			t.Errorf("nodes %v, want that of the next one", nodes)
		}
	})
}

// TestWhoWouldWaitForHimself: with the context of whichever side is held only the way from writing to reading is open.
func TestWhoWouldWaitForHimself(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw, other := a.ReadWrite("/locks/rw"), b.ReadWrite("/locks/rw")
		for _, c := range []struct {
			name       string
			held, then *coordinator.Lock
			want       error // context.DeadlineExceeded: somebody else's lock is waited for
		}{
			{"read, then write", rw.Read(), rw.Write(), coordinator.ErrDeadlock},
			{"read, then read", rw.Read(), rw.Read(), coordinator.ErrDeadlock},
			{"write, then write", rw.Write(), rw.Write(), coordinator.ErrDeadlock},
			{"write, then read", rw.Write(), rw.Read(), nil},
			{"write, then read in another session", rw.Write(), other.Read(), context.DeadlineExceeded},
			{"write, then read elsewhere", rw.Write(), a.ReadWrite("/locks/elsewhere").Read(), nil},
		} {
			held := c.held.Acquire(t.Context())
			coordtest.Soon(t, held)
			ctx, cancel := context.WithTimeout(held.Context(t.Context()), time.Minute)
			asked := time.Now()
			then := c.then.Acquire(ctx, coordinator.Try())
			if errors.Is(c.want, context.DeadlineExceeded) {
				then = c.then.Acquire(ctx)
			}
			_, err := then.Wait(t.Context())
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if errors.Is(err, coordinator.ErrDeadlock) && time.Since(asked) > 0 {
				t.Errorf("%s: refused after %v", c.name, time.Since(asked))
			}
			cancel()
			for _, l := range []*coordinator.Acquisition{then, held} {
				l.Release()
				<-l.Done()
			}
		}
	})
}

// TestReadersLeaveNoFloor: beside a reader that leaves another one may stand that came before it.
func TestReadersLeaveNoFloor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		hold := a.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		coordtest.Soon(t, hold)
		var queue []*coordinator.Acquisition
		for _, l := range []*coordinator.Lock{
			a.ReadWrite("/locks/rw").Read(), a.ReadWrite("/locks/rw").Read(), b.ReadWrite("/locks/rw").Write(),
		} {
			queue = append(queue, l.Acquire(t.Context()))
			synctest.Wait()
		}
		hold.Release()
		coordtest.Soon(t, queue[0])
		coordtest.Soon(t, queue[1])
		queue[1].Release() // the nearest one ahead of the writer
		time.Sleep(time.Second)
		if queue[2].Valid() {
			t.Error("a writer beside a reader")
		}
		queue[0].Release()
		coordtest.Soon(t, queue[2])
	})
}

// TestWhoeverIsNextWaitsForTheReaderToo: a writer that knows of one ahead, who becomes a reader and leaves.
func TestWhoeverIsNextWaitsForTheReaderToo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		write := a.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		coordtest.Soon(t, write)
		next := b.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		synctest.Wait()
		read := a.ReadWrite("/locks/rw").Read().Acquire(write.Context(t.Context()))
		coordtest.Soon(t, read)
		write.Release()
		time.Sleep(time.Second)
		if next.Valid() || !read.Valid() {
			t.Errorf("the reader holds: %v; the writer behind it: %v", read.Valid(), next.Valid())
		}
		read.Release()
		coordtest.Soon(t, next)
	})
}

// TestTheWordOfAWriterThatBecameAReader: a session knows of its own holders that they have left, and nobody was
// older. Of a writer in whose place a reader stands it must not think so.
func TestTheWordOfAWriterThatBecameAReader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw, other := a.ReadWrite("/locks/rw"), b.ReadWrite("/locks/rw")
		first := other.Write().Acquire(t.Context())
		coordtest.Soon(t, first)
		var queue []*coordinator.Acquisition
		for _, l := range []*coordinator.Lock{rw.Write(), other.Read(), rw.Write()} {
			queue = append(queue, l.Acquire(t.Context()))
			synctest.Wait()
		}
		write, reader, writer := queue[0], queue[1], queue[2]
		first.Release()
		coordtest.Soon(t, write) // and it has waited, so it would leave word
		read := rw.Read().Acquire(write.Context(t.Context()))
		coordtest.Soon(t, read)
		write.Release()
		coordtest.Soon(t, reader)
		reader.Release() // which the writer waits for; it remembers the write node ahead of it
		time.Sleep(time.Second)
		if writer.Valid() || !read.Valid() {
			t.Errorf("the reader holds: %v; the writer behind it: %v", read.Valid(), writer.Valid())
		}
		read.Release()
		coordtest.Soon(t, writer)
	})
}

// TestAReaderInAWritersPlaceHasItsToken: a store that was shown it, and refuses old ones, has to take that of the writer
// who waited meanwhile, however the reader came by it.
func TestAReaderInAWritersPlaceHasItsToken(t *testing.T) {
	for _, lost := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			rw := a.ReadWrite("/locks/rw", coordinator.Reentrant())
			write, wrote := coordtest.Hold(t, rw.Write())
			next := coordtest.Queue(b.ReadWrite("/locks/rw").Write())
			if lost { // the reply to the create, so that the node is looked up
				srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Session != a.SessionID() || q.Op != zktest.OpMulti || len(q.Parts) != 2 {
						return zktest.Pass()
					}
					srv.Intercept(nil)
					return zktest.CutAfter()
				})
			}
			read := rw.Read().Acquire(write.Context(t.Context()))
			inPlace := coordtest.Soon(t, read)
			write.Release()
			<-write.Done()
			again := rw.Read().Acquire(read.Context(t.Context()))
			for _, grant := range []events.Grant{inPlace, coordtest.Soon(t, again)} {
				if grant.Token != wrote.Token || grant.Node == wrote.Node {
					t.Errorf("%+v in the place of %+v", grant, wrote)
				}
			}
			read.Release()
			again.Release()
			if grant := coordtest.Soon(t, next); grant.Token <= inPlace.Token {
				t.Errorf("%+v behind %+v", grant, inPlace)
			}
		})
	}
}

// TestDataThatFitBesideOnePath: the request of a reader in a writer's place names two nodes. A server drops the connection
// over one that is too large, and would go on doing so.
func TestDataThatFitBesideOnePath(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		path := "/" + strings.Repeat("x", 3000)
		rw := c.ReadWrite(path)
		write, _ := coordtest.Hold(t, rw.Write())
		ctx := write.Context(t.Context())
		for size := range 5 {
			data := make([]byte, 1<<20-1-(size+1)*1500)
			beside, err := rw.Read().Acquire(ctx, coordinator.WithData(data)), error(nil)
			select {
			case <-beside.Granted():
			case <-beside.Done():
				err = beside.Err()
			case <-time.After(time.Minute):
				t.Fatalf("%d bytes: neither granted nor over", len(data))
			}
			if want := size < 4; errors.Is(err, coordinator.ErrTooLarge) != want {
				t.Errorf("%d bytes: %v", len(data), err)
			}
			beside.Release()
			<-beside.Done()
		}
		if !write.Valid() || c.State() != coordinator.StateConnected {
			t.Errorf("the writer holds %v, %v", write.Valid(), c.State())
		}
	})
}
