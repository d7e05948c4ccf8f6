package main

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFencedWriter(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		check(t, program.Within(server, 6*time.Second))
		if left := server.Sessions(); len(left) > 0 {
			t.Errorf("sessions left: %v", left)
		}
	})
}

func check(t *testing.T, zk *program.ZooKeeper) {
	t.Helper()
	screen := &stagetest.Screen{}
	if err := run(t.Context(), screen, zk); err != nil {
		t.Error(err)
	}
	t.Log(screen)
	screen.Must(t, "is her lock valid? false", "refuses: token", "the store that compares tokens has 70, the store that does not has 20")
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
