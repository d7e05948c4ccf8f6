package coordinator_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What has to happen in the end is waited for with a bound here, in virtual time: a
// lock that gets stuck fails these tests at once, where others would wait for it
// until the time limit of the whole run.

// TestCloseHasWaitedForTheStream: the goroutine of a subscriber that does not read is
// gone when Close returns, and with it what it had to offer.
func TestCloseHasWaitedForTheStream(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		<-c.Mutex("no path").Acquire(t.Context()).Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if ev, open := <-stream; open {
			t.Errorf("after Close has returned the stream says %+v", ev)
		}
	})
}
