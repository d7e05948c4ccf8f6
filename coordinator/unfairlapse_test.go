package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestANodeDeletedUnderALostLockLetsTheNextIn: an unfair lock is lost while its function runs, and keeps its node for that. Somebody
// deletes the node. A waiter of the same session has the lock by the event of that, and does not ask again and again until
// the function returns.
func TestANodeDeletedUnderALostLockLetsTheNextIn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := coordtest.NewMeter(srv)
		c := coordtest.Connect(t, srv, coordinator.WithDialer(m.Dial), coordinator.WithLossOnSuspend())
		started, lost, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
		returned := make(chan error, 1)
		go func() {
			returned <- c.Unfair(taskPath).Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
				close(started)
				<-ctx.Done()
				close(lost)
				<-goOn
				return nil
			})
		}()
		<-started
		waiter := coordtest.Queue(c.Unfair(taskPath))
		srv.CutAll()
		<-lost
		time.Sleep(10 * time.Second) // there is a connection again
		if waiter.Valid() || !srv.Exists(taskPath) {
			t.Fatalf("while the function runs the waiter is valid: %t, and the node is there: %t; want it to wait for the node", waiter.Valid(), srv.Exists(taskPath))
		}
		before := m.Read()
		eventstest.Must(t, srv.Delete(taskPath))
		time.Sleep(time.Second) // those who wait step back for a third of a second at most
		if spent := m.Read().Minus(before).Requests; !waiter.Valid() || spent > 3 {
			t.Errorf("a second behind the deletion of the node the waiter is valid: %t, after %d requests; want it to hold, after at most 3", waiter.Valid(), spent)
		}
		before = m.Read()
		time.Sleep(time.Minute)
		// Whoever holds checks its node once a second.
		if spent := m.Read().Minus(before).Requests; spent > 65 {
			t.Errorf("in the minute behind that the session makes %d requests, want a probe a second", spent)
		}
		close(goOn)
		if err := <-returned; !errors.Is(err, coordinator.ErrSuspended) {
			t.Errorf("Do = %v, want the loss", err)
		}
		synctest.Wait()
		if !waiter.Valid() || !srv.Exists(taskPath) {
			t.Errorf("behind the end of the function the waiter is valid: %t, and its node is there: %t; want both", waiter.Valid(), srv.Exists(taskPath))
		}
	})
}
