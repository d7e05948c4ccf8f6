package stagetest

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Play runs a program in virtual time, on a server in memory. Screen has its output.
type Play struct {
	*eventstest.Screen

	Server *zktest.Server
	ZK     *program.ZooKeeper
}

// Bubble runs play in virtual time. The test fails if a session is left on the server at
// the end.
func Bubble(t *testing.T, play func(t *testing.T, p *Play)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		t.Cleanup(func() {
			left := server.Sessions()
			eventstest.Expect(t, len(left) == 0, "sessions left: %#x, want none", left)
		})
		play(t, &Play{&eventstest.Screen{}, server, program.Within(server, 6*time.Second)})
	})
}

// Connect returns another coordinator. It is closed when the test ends.
func (p *Play) Connect(t *testing.T) *coordinator.Coordinator {
	t.Helper()
	return Connect(t, p.ZK.Servers, p.ZK.Options()...)
}

// Connect returns a coordinator, which is closed when the test ends.
func Connect(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}
