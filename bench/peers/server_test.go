package peers

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestAServerAnswersUntilItIsClosed(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	s, err := StartServer(t.Context(), ensemble.Tick(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if s.Version == "" || s.JavaVersion == "" {
		t.Errorf("ZooKeeper %q on Java %q", s.Version, s.JavaVersion)
	}
	if conn, err := net.DialTimeout("tcp4", s.Addr, time.Minute); err != nil {
		t.Error(err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.DialTimeout("tcp4", s.Addr, time.Minute); err == nil {
		t.Error("it is still there", conn.Close())
	}
	if _, err := os.Stat(s.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}
