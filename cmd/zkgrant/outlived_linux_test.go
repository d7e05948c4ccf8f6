package main

import (
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A process of the group that has ended counts as such, though its parent has left the group
// and never waits for it.
func TestAZombieInTheGroup(t *testing.T) {
	t.Parallel()
	run := locked(t, zktest.Start(t), nil, "zombie")
	pid := ready(t, run, "left")
	run.Exits(0)
	eventstest.Check(t, syscall.Kill(pid, syscall.SIGKILL))
}
