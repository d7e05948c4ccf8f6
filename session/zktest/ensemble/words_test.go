package ensemble

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestParseStatus(t *testing.T) {
	for _, c := range []struct {
		answer        string
		want          status
		serves, leads bool
	}{
		{"Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nLatency min/avg/max: 0/0.0/0\n" +
			"Zxid: 0x300000a1b\nMode: follower\nNode count: 5\n", status{"3.8.0", "follower", 3}, true, false}, // Debian's
		{"Zookeeper version: 3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC\n" +
			"Zxid: 0x100000000\nMode: leader\n", status{"3.9.2", "leader", 1}, true, true}, // a release
		{"Zookeeper version: 3.8\nZxid: 0x5\nMode: standalone\n", status{"3.8", "standalone", 0}, true, true},
		{"Mode: leader\nZxid: 0xffffffff00000000\n", status{"", "leader", 1<<32 - 1}, true, true},
		{"Zxid: 0x10000000000000000\nMode: leader\n", status{"", "leader", 0}, true, true}, // too long
		{"This ZooKeeper instance is not currently serving requests\n", status{}, false, false},
		{"srvr is not executed because it is not in the whitelist.\n", status{}, false, false},
		{"The Mode: leader\n", status{}, false, false},
		{"", status{}, false, false},
	} {
		got := parseStatus(c.answer)
		eventstest.Equal(t, got, c.want, "%q", c.answer)
		eventstest.Equal(t, got.serves(), c.serves, "%q serves", c.answer)
		eventstest.Equal(t, got.leads(), c.leads, "%q leads", c.answer)
	}
}

func TestParseCounters(t *testing.T) {
	got := parseCounters("zk_version\t3.8.0-x\nzk_avg_latency\t0.5\nzk_server_state\tleader\nzk_watch_count\t7\n\nno tab\n")
	eventstest.Equal(t, got, map[string]float64{"zk_avg_latency": 0.5, "zk_watch_count": 7}, "counters")
}

// If a server is stopped, its kernel accepts the connection, and no answer comes. A query
// to it must end with the caller's context.
func TestAskEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	begin := time.Now()
	_, err = Ask(ctx, mute.Addr().String(), "srvr")
	took := time.Since(begin)
	eventstest.Expect(t, err != nil && took < wordTimeout,
		"a question without an answer ends with %v after %v", err, took)
}

func TestPollEndsWithItsConditionOrItsContext(t *testing.T) {
	fault := errors.New("fault")
	calls := 0
	eventstest.Must(t, poll(t.Context(), func() (bool, error) { calls++; return calls == 3, nil }))
	eventstest.Equal(t, calls, 3, "calls")
	eventstest.ErrorIs(t, poll(t.Context(), func() (bool, error) { return false, fault }), fault, "a fault")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault)
	eventstest.ErrorIs(t, poll(ctx, func() (bool, error) { return false, nil }), fault, "an ended context")
}
