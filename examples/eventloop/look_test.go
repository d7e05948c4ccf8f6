package main

import (
	"errors"
	"io"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
)

// connect returns a coordinator that is closed with the test.
func connect(t *testing.T, servers string) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// outsider returns a client that is no part of the project, and what ends it.
func outsider(t *testing.T, servers string) (_ *zk.Conn, end func()) {
	t.Helper()
	conn, news, err := zk.Connect(strings.Split(servers, ","), 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		for range news { // ends when the client's goroutines have
		}
	}
}

// nodes asks a server which contenders there are.
func nodes(t *testing.T, servers string) []string {
	t.Helper()
	conn, end := outsider(t, servers)
	defer end()
	return list(t, conn)
}

func list(t *testing.T, conn *zk.Conn) (found []string) {
	t.Helper()
	locks, _, err := conn.Children(lockRoot)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	for _, lock := range locks {
		names, _, err := conn.Children(lockRoot + "/" + lock)
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // the server may have removed it in the meantime
			t.Fatal(err)
		}
		for _, name := range names {
			found = append(found, lock+"/"+name)
		}
	}
	return found
}

// until waits for so many contenders.
func until(t *testing.T, servers string, count int) {
	t.Helper()
	conn, end := outsider(t, servers)
	defer end()
	deadline := time.After(20 * time.Second)
	for len(list(t, conn)) != count {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("there are %d contenders, want %d", len(list(t, conn)), count)
		}
	}
}

// screen takes what the program prints, and acts when a text has come so many
// times.
type screen struct {
	text  string
	count int
	then  func()

	mu      sync.Mutex
	printed strings.Builder
	acted   bool
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.printed.Write(p)
	act := s.then != nil && !s.acted && strings.Count(s.printed.String(), s.text) >= s.count
	s.acted = s.acted || act
	s.mu.Unlock()
	if act {
		s.then()
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.String()
}

func (s *screen) must(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.String(), text) {
			t.Errorf("nothing says %q in\n%s", text, s)
		}
	}
}
