//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// endless is work that ignores the signal that asks it to end.
type endless struct {
	*child

	killed bool
	looks  int // how often zkgrant has looked whether it is over
}

func (*endless) start(events.Grant, string, terms) error { return nil }
func (*endless) renew(time.Time)                         {}
func (*endless) ask()                                    {}
func (e *endless) kill()                                 { e.killed = true }

func (e *endless) empty() bool {
	e.looks++
	return e.killed
}

// wants returns what a command line that wants a mutex makes, and its coordinator, which is
// closed with the test.
func wants(t *testing.T, g *rig, timeout time.Duration) (*wanted, *coordinator.Coordinator) {
	t.Helper()
	s := &settings{servers: g.servers, timeout: timeout}
	s.console = newConsole(os.Stderr, s)
	s.divert(func(string) {})
	c, err := s.open()
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	w := &wanted{settings: s, kind: "mutex", permits: 1, paths: []string{lockPath}}
	w.bindWait(&cobra.Command{})
	return w, c
}

// The machine is suspended until after the lease or the deadline of a revocation, which
// the library notices first. The next holder may have the lock already, so the work is
// killed without its grace.
func TestASuspendOfTheMachineCountsForTheCommand(t *testing.T) {
	for reason, suspended := range map[events.Reason]time.Duration{
		events.ReasonRevoked:     6 * time.Second,
		events.ReasonLeaseRanOut: 12 * time.Second,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			ctx := eventstest.Patiently(t, time.Minute)
			w, c := wants(t, double(t), 10*time.Second)
			job, slept := &endless{child: &child{}}, time.Duration(0)
			h := &holding{
				wanted: w, job: job, lock: c.Mutex(lockPath, coordinator.Revocable()).Acquire(ctx), wake: time.NewTimer(time.Hour),
				clock: func() time.Time { return time.Now().Add(slept) },
			}
			eventstest.Must(t, h.begin(eventstest.Receive(t, h.lock.Granted(), "the Grant"), "mutex"))
			if reason == events.ReasonRevoked {
				h.duty.Revoked, h.duty.Due = true, h.onClock(time.Now().Add(5*time.Second))
			}
			act := func(killed bool) {
				t.Helper()
				if _, over, err := h.act(); over || err != nil || job.killed != killed {
					t.Errorf("over: %v (%v), killed: %v; want false, no error, and %v", over, err, job.killed, killed)
				}
			}
			act(false)
			h.lock.Release()
			slept = suspended
			h.lose(reason)
			act(true)
		})
	}
}

// While lost work has its grace, zkgrant looks every 10 ms whether it is over. It must not
// take processor time that the work needs for its end.
func TestAGraceIsNoBusyLoop(t *testing.T) {
	ctx := eventstest.Patiently(t, time.Minute)
	g := double(t)
	w, c := wants(t, g, 5*time.Second)
	news, job, ended := c.Events(ctx), &endless{child: &child{}}, make(chan struct{})
	go func() {
		defer close(ended)
		code, err := w.hold(c, &signals{make(chan os.Signal)}, job, "")
		eventstest.Expect(t, code == codeLost && err == nil,
			"it ends with %d (%v), want %d", code, err, codeLost)
	}()
	hears[events.Grant](t, news)
	g.expire()
	eventstest.Receive(t, ended, "the end of the work")
	most := int(w.timeout/10/(10*time.Millisecond)) * 2
	eventstest.Expect(t, job.looks <= most, "zkgrant looked %d times, want at most %d", job.looks, most)
}

// A command takes longer to start than its first lease lasts. The lease was renewed
// meanwhile, so the supervisor does not kill it.
func TestAStartThatOutlastsTheFirstLease(t *testing.T) {
	out, err := exec.Command("part", "supervise").CombinedOutput()
	eventstest.Expect(t, err == nil && string(out) == "killed: false\n",
		"the supervisor's part ends with %q (%v), want killed: false", out, err)
}
