package coordinator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTwoReadersInOnePlace: a writer may become several readers, and each has the writer's place until the last of
// them has left.
func TestTwoReadersInOnePlace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
		rw := a.ReadWrite("/locks/rw")
		write := rw.Write().Acquire(t.Context())
		soon(t, write)
		var readers []*coordinator.Acquisition
		for range 2 {
			reader := rw.Read().Acquire(write.Context(t.Context()))
			soon(t, reader)
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
		soon(t, writer)
	})
}

// TestAPlaceIsTakenOnlyFromAWriteNodeThatStands: what the servers know of the write node counts, and not what its owner
// believes, who is told of its end later.
func TestAPlaceIsTakenOnlyFromAWriteNodeThatStands(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
		write := a.ReadWrite("/locks/rw").Write().Acquire(t.Context())
		grant := soon(t, write)
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
		read := a.ReadWrite("/locks/rw").Read().Acquire(write.Context(t.Context()))
		soon(t, next)
		select {
		case <-read.Done():
			if err := read.Err(); !errors.Is(err, coordinator.ErrNotAcquired) && !errors.Is(err, coordinator.ErrNodeRemoved) {
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

// TestAReaderThatTries: whoever would not have to wait is let in.
func TestAReaderThatTries(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
		soon(t, a.ReadWrite("/locks/rw").Read().Acquire(t.Context()))
		reader := b.ReadWrite("/locks/rw").Read().Acquire(t.Context(), coordinator.Try())
		soon(t, reader)
		writer := b.ReadWrite("/locks/rw").Write()
		if _, err := writer.Acquire(t.Context(), coordinator.Try()).Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("a writer beside two readers: %v", err)
		}
		writer.Acquire(t.Context())
		synctest.Wait()
		read := a.ReadWrite("/locks/rw").Read()
		if _, err := read.Acquire(t.Context(), coordinator.Try()).Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("a reader behind a writer: %v", err)
		}
		if nodes := srv.Children("/locks/rw"); len(nodes) != 3 {
			t.Errorf("nodes %v, want those of two readers and a writer", nodes)
		}
	})
}
