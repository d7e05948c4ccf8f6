package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// Some servers hand out another session when the old one is resumed, without a word about its end. To the client that is the
// old one; to us it is the end of an epoch.
func TestAReplacedSessionIsAnExpiredOne(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		cut := make(chan struct{})
		var asked []int64
		f := &fakeServer{}
		f.serve = func(n int, c fakeConn) {
			id, ok := c.handshake()
			if !ok {
				return
			}
			asked = append(asked, id)
			c.grant(testTimeout, int64(100+n)) // whatever was asked for
			if n == 1 {
				<-cut
				return
			}
			c.echo()
		}
		group := &actors.Group{}
		var mu sync.Mutex
		var told []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		cfg := NewConfig(OptionFunc(func(c *Config) { c.Dial, c.Timeout = f.dial, testTimeout }))
		s := Open(Servers{Hosts: []string{"a:1", "b:1"}}, cfg, group, func(ev events.Event) {
			switch ev := ev.(type) {
			case events.Connected:
				note("connected %d", ev.Session)
			case events.SessionExpired:
				note("expired %d", ev.Session)
			}
		})
		if err := s.Ready(context.Background()); err != nil {
			t.Fatal(err)
		}
		seat := s.Seat(Place{Dir: "/locks"})
		seat.Open(func(in recipes.Input, _ error) {
			switch in := in.(type) {
			case recipes.Opened:
				note("epoch %d is %d", in.Epoch, in.Session)
			case recipes.Expired:
				note("epoch over")
			}
		})
		synctest.Wait()
		close(cut)
		time.Sleep(time.Minute)
		synctest.Wait()
		// The second connection is refused by the wire, the third belongs to a new client.
		if want := []string{"connected 101", "epoch 1 is 101", "expired 101", "epoch over", "connected 103", "epoch 2 is 103"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if want := []int64{0, 101, 0}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Close(ctx)
		group.Close()
		f.wg.Wait()
	})
}
