package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stage"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestFencedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		check(t, program.Within(server, 6*time.Second))
		if left := server.Sessions(); len(left) > 0 {
			t.Errorf("sessions left: %v", left)
		}
	})
}

func TestFencedWriterOnRealServer(t *testing.T) {
	servers := ensemble.Start(t, 1).Connect()
	zk, err := program.Open(servers, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	check(t, zk)
	if left := stage.Ephemerals(t, servers, accountLock); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func check(t *testing.T, zk *program.ZooKeeper) {
	t.Helper()
	screen := &stage.Screen{}
	if err := run(t.Context(), screen, zk); err != nil {
		t.Error(err)
	}
	t.Log(screen)
	screen.Must(t, "is her lock valid? false", "refuses: token", "the store that compares tokens has 70, the store that does not has 20")
}

func TestControlC(t *testing.T) {
	bobWaits := func(s *stage.Screen) { s.Await(t, "ann  is halted", 1) }
	for name, servers := range map[string]string{"double": zktest.Start(t).Addr(), "real": ensemble.Start(t, 1).Connect()} {
		t.Run(name, func(t *testing.T) { stage.ControlC(t, servers, accountLock, bobWaits) })
	}
}

// Only what is older than something seen is refused.
func TestStore(t *testing.T) {
	s := &store{fenced: true}
	var stale *staleError
	for _, test := range []struct {
		token int64
		write bool
		stale bool
	}{{5, true, false}, {5, true, false}, {4, true, true}, {7, false, false}, {5, true, true}, {6, false, true}, {7, true, false}} {
		var err error
		if test.write {
			err = s.write(test.token, int(test.token))
		} else {
			_, err = s.read(test.token)
		}
		if errors.As(err, &stale) != test.stale {
			t.Errorf("token %d, write %t: %v; refused should be %t", test.token, test.write, err, test.stale)
		}
	}
	if s.balance != 7 {
		t.Errorf("balance %d, want 7", s.balance)
	}
}
