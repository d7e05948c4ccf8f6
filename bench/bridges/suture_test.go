package bridges

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/thejerf/suture/v4"

	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/events"
)

var _ suture.Service = (*bridge.Service)(nil)

// TestSutureLeadsAgainAfterALoss: the work stops, another process leads, and the supervisor lets the first one campaign again.
func TestSutureLeadsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	play := func(s stage) {
		const path = "/leader"
		type turn struct {
			who   string
			token int64
		}
		leads, ends := make(chan turn, 9), make(chan error, 9)
		ctx, stop := context.WithCancel(s.within())
		defer stop()
		failed := make(chan error, 9)
		supervisor := suture.New("test", suture.Spec{EventHook: func(e suture.Event) {
			if e, ok := e.(suture.EventServiceTerminate); ok {
				err, _ := e.Err.(error)
				failed <- err
			}
		}, FailureBackoff: time.Millisecond})
		processes := map[string]func(){}
		for _, who := range []string{"first", "second"} {
			c := s.process()
			processes[who] = func() { s.lose(c, path) }
			supervisor.Add(bridge.NewService(c.Election(path), func(ctx context.Context, g events.Grant) error {
				leads <- turn{who, g.Token}
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return ctx.Err()
			}))
		}
		over := supervisor.ServeBackground(ctx)
		last := turn{}
		observer := s.process()
		for range 4 {
			now := <-leads
			if now.who == last.who || now.token <= last.token {
				s.Errorf("%+v leads after %+v, want the other one with a greater token", now, last)
			}
			last = now
			s.queued(observer.Mutex(path), 2)
			processes[now.who]()
			if err := <-ends; !isLoss(err) {
				s.Errorf("the work of %s ended with %v, want a loss", now.who, err)
			}
			if err := <-failed; !isLoss(err) {
				s.Errorf("the supervisor was told %v, want the loss", err)
			}
		}
		<-leads
		stop()
		if err := <-over; !errors.Is(err, context.Canceled) {
			s.Errorf("the supervisor ended with %v, want the end of its context", err)
		}
		s.queued(observer.Mutex(path), 0)
	}
	inVirtualTime(t, play)
	onARealServer(t, play)
}
