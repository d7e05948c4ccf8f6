package coordinator_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestOneKindOfLockAtAPath: while a path is in use as one kind of lock, another kind is
// refused at once, and nothing is sent for it. When the last of the one kind is Done the path is free for
// any other.
func TestOneKindOfLockAtAPath(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		rw := c.ReadWrite(lockPath)
		for name, kinds := range map[string]struct{ first, second, other *coordinator.Lock }{
			"mutex, then read/write": {c.Mutex(lockPath), c.Mutex(lockPath), rw.Read()},
			"read/write, then mutex": {rw.Read(), rw.Write(), c.Mutex(lockPath)},
		} {
			holder, waiter := coordtest.Queue(kinds.first), coordtest.Queue(kinds.second)
			requests := srv.Requests(zktest.OpMulti) + srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpGetChildren2)
			refused := kinds.other.Acquire(t.Context())
			<-refused.Done()
			synctest.Wait()
			if err := refused.Err(); !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: %v", name, err)
			}
			if sent := srv.Requests(zktest.OpMulti) + srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpGetChildren2); sent != requests {
				t.Errorf("%s: %d requests", name, sent-requests)
			}
			holder.Release()
			<-holder.Done()
			if err := kinds.other.Acquire(t.Context()).Err(); !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s, one left: %v", name, err)
			}
			waiter.Release()
			<-waiter.Done()
			last := kinds.other.Acquire(t.Context())
			coordtest.Soon(t, last)
			last.Release()
			<-last.Done()
		}
	})
}

// TestNoSizeForAnotherKindOfLock: a path that is in use as another kind of lock gets no size, whether this process uses it
// or, where that can be seen, another one.
func TestNoSizeForAnotherKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, a.Mutex(lockPath))
		coordtest.Hold(t, a.Unfair(taskPath))
		before := srv.Tree()
		for what, err := range map[string]error{
			"Resize of a mutex":             a.Semaphore(lockPath, 2).Resize(t.Context(), 3),
			"Resize of an unfair lock":      a.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"Resize of another's":           b.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"permit of an unfair lock":      coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context())),
			"permit of an unfair one tried": coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context(), coordinator.Try())),
		} {
			if !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if after := srv.Tree(); !slices.Equal(after, before) {
			t.Errorf("left %v", after)
		}
	})
}
