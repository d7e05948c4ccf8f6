package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// request is one for an upload. asked counts the calls of its function.
type request struct {
	*bridge.Upload
	asked chan struct{}
}

func newRequest(t *testing.T, u *bridge.Uploads) request {
	t.Helper()
	upload, err := u.NewLock("a/b")
	eventstest.Must(t, err)
	return request{upload, make(chan struct{}, 9)}
}

func (r request) lock(ctx context.Context) error {
	return r.Lock(ctx, func() { r.asked <- struct{}{} })
}

// TestUploadIsInterrupted: a second request, in this process or another one, asks the first one, and has the upload after its
// unlock. The second one is asked only by the third.
func TestUploadIsInterrupted(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		here := bridge.NewUploads(coordtest.Connect(t, srv), "/uploads", time.Minute)
		there := bridge.NewUploads(coordtest.Connect(t, srv), "/uploads", time.Minute)
		holder := newRequest(t, here)
		eventstest.Must(t, holder.lock(t.Context()))
		if err := holder.lock(t.Context()); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("Lock of an upload that it has: %v, want ErrInvalid", err)
		}
		for turn, u := range []*bridge.Uploads{there, there, here, here, there} {
			next, locked := newRequest(t, u), make(chan error, 1)
			go func() { locked <- next.lock(t.Context()) }()
			<-holder.asked
			synctest.Wait()
			if len(locked) > 0 {
				t.Fatalf("turn %d: the request has the upload before it is unlocked: %v", turn, <-locked)
			}
			eventstest.Check(t, holder.Unlock())
			eventstest.Must(t, <-locked)
			time.Sleep(2 * time.Minute)
			if len(holder.asked) > 0 || len(next.asked) > 0 {
				t.Errorf("turn %d: the holder was asked %d times more, and the next one %d times, want 0", turn, len(holder.asked), len(next.asked))
			}
			holder = next
		}
		eventstest.Check(t, holder.Unlock())
		if err := holder.Unlock(); !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("a second Unlock: %v, want ErrNotLocked", err)
		}
		eventstest.Check(t, holder.lock(t.Context())) // it can be used again
		eventstest.Check(t, holder.Unlock())
	})
}

// TestManyRequestsForAnUpload: they have it one after the other.
func TestManyRequestsForAnUpload(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const each = 5
		inside, done := make(chan struct{}, 1), make(chan error)
		for range 2 {
			u := bridge.NewUploads(coordtest.Connect(t, srv), "/uploads", time.Minute)
			for range each {
				r := newRequest(t, u)
				go func() {
					if err := r.lock(t.Context()); err != nil {
						done <- err
						return
					}
					select {
					case inside <- struct{}{}:
					default:
						t.Error("two requests have the upload")
					}
					select {
					case <-r.asked:
					case <-time.After(time.Minute): // the last one
					}
					<-inside
					done <- r.Unlock()
				}()
			}
		}
		for range 2 * each {
			eventstest.Check(t, <-done)
		}
	})
}

// TestUploadIsLost: the request is asked to stop, OnLost is called, and Unlock returns the loss. It is lost with the session, or if the
// holder does not unlock within the grace.
func TestUploadIsLost(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, lost := coordtest.Connect(t, srv), make(chan error, 1)
		u := bridge.NewUploads(c, "/uploads", time.Minute, bridge.OnLost(func(err error) { lost <- err }))
		holder := newRequest(t, u)
		eventstest.Must(t, holder.lock(t.Context()))
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-holder.asked
		for what, err := range map[string]error{"OnLost": <-lost, "Unlock": holder.Unlock()} {
			if !errors.Is(err, coordinator.ErrSessionExpired) {
				t.Errorf("%s says %v, want ErrSessionExpired", what, err)
			}
		}

		eventstest.Must(t, holder.lock(t.Context()))
		next, began := newRequest(t, u), time.Now()
		eventstest.Must(t, next.lock(t.Context()))
		if took := time.Since(began); took < time.Minute {
			t.Errorf("a holder that does not unlock has lost the upload after %v, want its grace of a minute", took)
		}
		<-holder.asked
		for what, err := range map[string]error{"OnLost": <-lost, "Unlock": holder.Unlock()} {
			if !errors.Is(err, coordinator.ErrRevoked) {
				t.Errorf("%s says %v, want ErrRevoked", what, err)
			}
		}
		eventstest.Check(t, next.Unlock())
		if len(holder.asked) > 0 || len(next.asked) > 0 {
			t.Errorf("the requests were asked %d and %d times more, want 0", len(holder.asked), len(next.asked))
		}
	})
}

// TestLockOfAnUploadEnds: with its context, if the holder has not agreed to be asked, or if the grace is none.
func TestLockOfAnUploadEnds(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		u := bridge.NewUploads(c, "/uploads", time.Minute)
		holder, next := newRequest(t, u), newRequest(t, u)
		eventstest.Must(t, holder.lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the second time it has ended before
			if err := next.lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock with a second to wait: %v, want its deadline", err)
			}
		}
		eventstest.Check(t, holder.Unlock())

		stubborn, _ := coordtest.Hold(t, c.Mutex(bridge.Path("/uploads", "a/b")))
		if err := next.lock(t.Context()); !errors.Is(err, coordinator.ErrNotRevocable) {
			t.Errorf("Lock behind a holder that has not agreed: %v, want ErrNotRevocable", err)
		}
		coordtest.End(stubborn)
		if _, err := bridge.NewUploads(c, "/uploads", -1).NewLock("a"); !errors.Is(err, coordinator.ErrGrace) {
			t.Errorf("NewLock with a negative grace: %v, want ErrGrace", err)
		}
	})
}
