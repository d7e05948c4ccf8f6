package ensemble

import (
	"context"
	"errors"
	"maps"
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
		if got := parseStatus(c.answer); got != c.want || got.serves() != c.serves || got.leads() != c.leads {
			t.Errorf("%q: %+v, serves %t, leads %t; want %+v, %t, %t",
				c.answer, got, got.serves(), got.leads(), c.want, c.serves, c.leads)
		}
	}
}

func TestParseCounters(t *testing.T) {
	got := parseCounters("zk_version\t3.8.0-x\nzk_avg_latency\t0.5\nzk_server_state\tleader\nzk_watch_count\t7\n\nno tab\n")
	if want := map[string]float64{"zk_avg_latency": 0.5, "zk_watch_count": 7}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// If a server is stopped its kernel takes the connection, and there is no answer. A
// question to it must end with the caller's context.
func TestAskEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := Ask(ctx, mute.Addr().String(), "srvr"); err == nil || time.Since(begin) >= wordTimeout {
		t.Errorf("a question that is not answered ends with %v after %v; want an error, with its context",
			err, time.Since(begin))
	}
}

func TestPollEndsWithItsConditionOrItsContext(t *testing.T) {
	fault := errors.New("fault")
	calls := 0
	if err := poll(t.Context(), func() (bool, error) { calls++; return calls == 3, nil }); err != nil || calls != 3 {
		t.Errorf("%d calls, error %v; want 3 calls", calls, err)
	}
	if err := poll(t.Context(), func() (bool, error) { return false, fault }); !errors.Is(err, fault) {
		t.Errorf("error %v, want %v", err, fault)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault)
	if err := poll(ctx, func() (bool, error) { return false, nil }); !errors.Is(err, fault) {
		t.Errorf("error %v, want the context's cause", err)
	}
}
