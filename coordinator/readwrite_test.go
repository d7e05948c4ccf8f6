package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestReadersTogetherWritersAlone: everybody is granted in the order of arrival, and those
// who read between two writers hold together.
func TestReadersTogetherWritersAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw, other := a.ReadWrite(lockPath), b.ReadWrite(lockPath)
		var queue []*coordinator.Acquisition
		for _, l := range []*coordinator.Lock{rw.Write(), rw.Read(), other.Read(), other.Write(), rw.Write(), rw.Read()} {
			queue = append(queue, l.Acquire(t.Context()))
			synctest.Wait()
		}
		granted := func() (which []int) {
			synctest.Wait()
			for i, q := range queue {
				if q.Valid() {
					which = append(which, i)
				}
			}
			return which
		}
		for _, step := range []struct {
			release []int
			want    []int
		}{{nil, []int{0}}, {[]int{0}, []int{1, 2}}, {[]int{2}, []int{1}}, {[]int{1}, []int{3}}, {[]int{3}, []int{4}}, {[]int{4}, []int{5}}} {
			for _, i := range step.release {
				queue[i].Release()
			}
			if got := granted(); !slices.Equal(got, step.want) {
				t.Fatalf("behind the release of %v: %v hold, want %v", step.release, got, step.want)
			}
		}
	})
}

// TestDowngradeLetsNoWriterIn: the writer that waits, and the reader behind it, find the read
// node in the place of the write node.
func TestDowngradeLetsNoWriterIn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw := a.ReadWrite(lockPath)
		first := b.ReadWrite(lockPath).Read().Acquire(t.Context())
		coordtest.Soon(t, first)
		write := rw.Write().Acquire(t.Context()) // it waits, so it would leave a floor
		synctest.Wait()
		reader := b.ReadWrite(lockPath).Read().Acquire(t.Context())
		synctest.Wait()
		writer := b.ReadWrite(lockPath).Write().Acquire(t.Context())
		synctest.Wait()
		first.Release()
		coordtest.Soon(t, write)
		read := rw.Read().Acquire(write.Context(t.Context()))
		coordtest.Soon(t, read)
		if _, err := rw.Write().Acquire(read.Context(t.Context())).Wait(t.Context()); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("a reader asked to write: %v", err)
		}
		synctest.Wait()
		if reader.Valid() || writer.Valid() {
			t.Error("granted beside the writer")
		}
		write.Release()
		coordtest.Soon(t, reader)
		reader.Release()
		time.Sleep(time.Second)
		if !read.Valid() || writer.Valid() {
			t.Error("the writer came in between")
		}
		read.Release()
		coordtest.Soon(t, writer)
	})
}

// TestDowngradeOfAPastWriter: who does not hold any more has no place to give.
func TestDowngradeOfAPastWriter(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a := coordtest.Connect(t, srv)
		rw := a.ReadWrite(lockPath)
		write := rw.Write().Acquire(t.Context())
		coordtest.Soon(t, write)
		held := write.Context(t.Context())
		srv.Intercept(func(r zktest.Request) zktest.Action {
			for _, part := range r.Parts {
				if part.Op == zktest.OpCreate { // the read node, behind a check
					return zktest.Delay(time.Second)
				}
			}
			return zktest.Pass()
		})
		read := rw.Read().Acquire(held)
		write.Release() // before the read lock is granted
		if _, err := read.Wait(t.Context()); !errors.Is(err, coordinator.ErrReleased) && !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("the place of a writer that has gone: %v", err)
		}
		<-read.Done()
		if _, err := rw.Read().Acquire(context.WithoutCancel(held)).Wait(t.Context()); err != nil {
			t.Errorf("with the context of a writer that has gone: %v", err)
		}
	})
}

// TestTryToReadBesideReaders: who can be let in without waiting is.
func TestTryToReadBesideReaders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
		coordtest.Soon(t, a.Read().Acquire(t.Context()))
		coordtest.Soon(t, b.Read().Acquire(t.Context(), coordinator.Try()))
		if _, err := b.Write().Acquire(t.Context(), coordinator.Try()).Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("a writer beside readers: %v", err)
		}
		coordtest.Queue(a.Write())
		if _, err := b.Read().Acquire(t.Context(), coordinator.Try()).Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("a reader behind a writer: %v", err)
		}
	})
}
