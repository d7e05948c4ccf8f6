package coordtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// RealMax bounds every wait on real servers. It is far longer than any wait takes, even
// on a busy machine.
const RealMax = 3 * time.Minute

// RealContext ends with the test, or after RealMax, which is extended on a busy machine.
func RealContext(t *testing.T) context.Context {
	t.Helper()
	return eventstest.Patiently(t, RealMax)
}

// ConnectReal connects to real servers. The coordinator is closed at the end of the test.
func ConnectReal(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	options = append([]coordinator.Option{coordinator.WithSessionTimeout(10 * time.Second)}, options...)
	c, err := coordinator.Connect(RealContext(t), servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// RawClient returns a plain client of real servers. It is closed at the end of the test.
func RawClient(t *testing.T, servers string) *zk.Conn {
	t.Helper()
	return client(t, servers, zk.WithDialer(net.DialTimeout))
}

// Queued waits until n nodes are in the lock's directory, and returns their names in the
// order of the server's numbers. The client may lose its connection meanwhile.
func Queued(t *testing.T, raw *zk.Conn, dir string, n int) (names []string) {
	t.Helper()
	var err error
	eventstest.Eventually(t, fmt.Sprintf("%d nodes at %s", n, dir), func() bool {
		names, _, err = raw.Children(dir)
		return (err == nil || errors.Is(err, zk.ErrNoNode)) && len(names) == n
	}, func() string { return fmt.Sprintf("there are %q (%v)", names, err) })
	slices.SortFunc(names, func(a, b string) int {
		na, _ := events.ParseName(a)
		nb, _ := events.ParseName(b)
		return events.CompareNames(na, nb)
	})
	return names
}

// GrantOf waits for the grant.
func GrantOf(t *testing.T, a *coordinator.Acquisition) events.Grant {
	t.Helper()
	grant, err := a.Wait(RealContext(t))
	eventstest.Must(t, err)
	return grant
}

// HoldReal is Hold for real servers: it waits as long as GrantOf.
func HoldReal(
	t *testing.T, l coordinator.Handle, options ...coordinator.AcquireOption,
) (*coordinator.Acquisition, events.Grant) {
	t.Helper()
	a := l.Acquire(context.Background(), options...)
	return a, GrantOf(t, a)
}

// LossOf waits for the loss.
func LossOf(t *testing.T, a *coordinator.Acquisition) events.Lost {
	t.Helper()
	return eventstest.Receive(t, a.Lost(), "the loss of the lock")
}

// EndOf waits for the end, and returns its error.
func EndOf(t *testing.T, a *coordinator.Acquisition) error {
	t.Helper()
	eventstest.Receive(t, a.Done(), "the end of the acquisition")
	return a.Err()
}

// NotLost checks that the lock is held, and that no loss was delivered.
func NotLost(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	if len(a.Lost()) > 0 || IsClosed(a.Done()) || !a.Valid() {
		t.Errorf("valid: %v, until %v; it ended with %v; want it held", a.Valid(), a.Deadline(), a.Err())
	}
}

// Toll is what a real server counted.
type Toll struct {
	Packets float64 // received, without the requests for the counters
	Bytes   float64 // received
	Woken   float64 // watches that fired because a node was deleted
}

// RealToll returns what the server counts while do runs. On a release without these
// counters, the test is skipped.
func RealToll(t *testing.T, e *ensemble.Ensemble, do func()) Toll {
	t.Helper()
	e.Needs(t, ensemble.Counters)
	asked := 0.0 // each request for the counters is a packet, counted when it is answered
	read := func() Toll {
		var counters map[string]float64
		var err error
		eventstest.Eventually(t, "the server says what it has counted", func() bool {
			asked++
			counters, err = e.Counters(RealContext(t), 0)
			return err == nil
		}, func() string { return fmt.Sprintf("it says: %v", err) })
		for _, name := range []string{"zk_packets_received", "zk_bytes_received_count", "zk_sum_node_deleted_watch_count"} {
			if _, ok := counters[name]; !ok {
				t.Fatalf("the server has no counter %s", name)
			}
		}
		return Toll{counters["zk_packets_received"] - asked, counters["zk_bytes_received_count"], counters["zk_sum_node_deleted_watch_count"]}
	}
	before := read()
	do()
	after := read()
	return Toll{after.Packets - before.Packets, after.Bytes - before.Bytes, after.Woken - before.Woken}
}
