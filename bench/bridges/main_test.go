package bridges

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a server in virtual time. Each coordinator on it represents a process.
type stage struct {
	*testing.T
	server *zktest.Server
}

func inVirtualTime(t *testing.T, play func(s stage)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) { play(stage{t, zktest.Start(t)}) })
}

// process returns a coordinator, which is closed when the test ends.
func (s stage) process() *coordinator.Coordinator {
	s.Helper()
	c, err := coordinator.Connect(s.Context(), s.server.Addr(), coordinator.WithSessionTimeout(10*time.Second), s.server.Option())
	eventstest.Must(s, err)
	s.Cleanup(func() { eventstest.Check(s, c.Close()) })
	return c
}

func (s stage) lose(c *coordinator.Coordinator) {
	s.Helper()
	eventstest.Must(s, s.server.Expire(c.SessionID()))
}

// queued waits until that many contenders hold the lock or wait for it.
func (s stage) queued(lock *coordinator.Lock, want int) {
	s.Helper()
	synctest.Wait()
	eventstest.Eventually(s, fmt.Sprintf("%d contenders at %s", want, lock.Path()), func() bool {
		queue, err := lock.Queue(s.Context())
		return err == nil && len(queue) == want
	})
}

func (s stage) isLoss(err error, what string) {
	s.Helper()
	eventstest.Expect(s, errors.As(err, new(*coordinator.LostError)), "%s: %v, want the loss", what, err)
}
