package peers

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := StartServer(ctx, ensemble.Tick(time.Second))
	if errors.Is(err, ensemble.ErrNotFound) {
		t.Skip(err)
	}
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
