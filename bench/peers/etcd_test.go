package peers

import (
	"errors"
	"os"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, name string
		value      float64
		ok         bool
	}{
		{"# HELP grpc_server_started_total Total number 5", "", 0, false},
		{`grpc_server_started_total{grpc_method="Txn",grpc_type="unary"} 12`, "grpc_server_started_total", 12, true},
		{`grpc_server_started_total{grpc_method="a b"} 1e+06`, "grpc_server_started_total", 1e6, true},
		{"go_goroutines 86", "go_goroutines", 86, true},
		{"go_goroutines many", "", 0, false},
		{"go_goroutines", "", 0, false},
		{"", "", 0, false},
	} {
		name, value, ok := parseMetric(c.line)
		if ok != c.ok || ok && (name != c.name || value != c.value) {
			t.Errorf("parseMetric(%q) = %q, %v, %v; want %q, %v, %v", c.line, name, value, ok, c.name, c.value, c.ok)
		}
	}
}

func TestEtcdVersion(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"etcd Version: 3.4.23\nGit SHA: Not provided\n": "3.4.23", "something else": "?"} {
		if got := etcdVersion(said); got != want {
			t.Errorf("etcdVersion(%q) = %q, want %q", said, got, want)
		}
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	parent := t.TempDir()
	e, err := StartEtcd(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := e.Counters(t.Context())
	if err != nil {
		t.Error(err)
	}
	if _, ok := counters["grpc_server_started_total"]; !ok {
		t.Errorf("%d counters, without that of requests", len(counters))
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("when it is closed it has left %v, %v; want an empty folder", left, err)
	}
}

func TestKazooIsFoundAndRun(t *testing.T) {
	eventstest.NeedsServers(t)
	k, err := FindKazoo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said, err := k.Command("import sys, kazoo; print(sys.argv[1])", "here").Output()
	if err != nil || string(said) != "here\n" {
		t.Errorf("Python printed %q, %v; want the argument, here", said, err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	if _, err := FindKazoo(t.Context()); !errors.Is(err, ErrNoKazoo) {
		t.Errorf("without Python: %v, want %v", err, ErrNoKazoo)
	}
}
