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
	tests := map[string]struct {
		answer        string
		want          status
		serves, leads bool
	}{
		"Debian's build": {
			answer: "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nLatency min/avg/max: 0/0.0/0\nZxid: 0x300000a1b\nMode: follower\nNode count: 5\n",
			want:   status{version: "3.8.0", mode: "follower", epoch: 3}, serves: true,
		},
		"a release": {
			answer: "Zookeeper version: 3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC\nZxid: 0x100000000\nMode: leader\n",
			want:   status{version: "3.9.2", mode: "leader", epoch: 1}, serves: true, leads: true,
		},
		"standalone": {
			answer: "Zookeeper version: 3.8\nZxid: 0x5\nMode: standalone\n",
			want:   status{version: "3.8", mode: "standalone"}, serves: true, leads: true,
		},
		"epoch in the upper half":  {answer: "Mode: leader\nZxid: 0xffffffff00000000\n", want: status{mode: "leader", epoch: 1<<32 - 1}, serves: true, leads: true},
		"not in an ensemble yet":   {answer: "This ZooKeeper instance is not currently serving requests\n"},
		"nothing":                  {},
		"the word is not allowed":  {answer: "srvr is not executed because it is not in the whitelist.\n"},
		"a zxid that is too long":  {answer: "Zxid: 0x10000000000000000\nMode: leader\n", want: status{mode: "leader"}, serves: true, leads: true},
		"mode inside another line": {answer: "The Mode: leader\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parseStatus(test.answer)
			if got != test.want || got.serves() != test.serves || got.leads() != test.leads {
				t.Errorf("got %+v, serves %t, leads %t; want %+v, %t, %t", got, got.serves(), got.leads(), test.want, test.serves, test.leads)
			}
		})
	}
}

func TestParseCounters(t *testing.T) {
	got := parseCounters("zk_version\t3.8.0-x\nzk_avg_latency\t0.5\nzk_server_state\tleader\nzk_watch_count\t7\n\nno tab\n")
	want := map[string]float64{"zk_avg_latency": 0.5, "zk_watch_count": 7}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// If a server is stopped its kernel takes the connection, and there is no answer. A question to it must end with the caller's context.
func TestAskEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := ask(ctx, mute.Addr().String(), "srvr"); err == nil {
		t.Error("asking a server that never answers = nil, want an error")
	}
	if took := time.Since(begin); took >= wordTimeout {
		t.Errorf("ask took %v, want it to end with its context, before its own limit of %v", took, wordTimeout)
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
