package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestSASLFile reads the user and the password from a file. A wrong file is not shown.
func TestSASLFile(t *testing.T) {
	srv := zktest.Start(t)
	srv.AddUser("ann", "se:cret")
	ask := func(text string) error {
		s := &settings{servers: srv.Addr(), timeout: 10 * time.Second, saslFile: filepath.Join(t.TempDir(), "user")}
		s.console = newConsole(os.Stderr, s)
		eventstest.Must(t, os.WriteFile(s.saslFile, []byte(text), 0o600))
		return s.ask(t.Context(), func(context.Context, *coordinator.Coordinator) error { return nil })
	}
	for _, text := range []string{"ann:se:cret", "ann:se:cret\n", "ann:se:cret\r\n"} {
		if err := ask(text); err != nil {
			t.Errorf("with %q: %v", text, err)
		}
	}
	if err := ask("ann:hush"); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("with a wrong password: %v, want ErrNoAuth", err)
	}
	for _, text := range []string{"", "hush", "ann:hush\nann:other"} {
		if err := ask(text); err == nil || errors.Is(err, coordinator.ErrNoAuth) || strings.Contains(err.Error(), "hush") {
			t.Errorf("with %q: %v; want an error that says nothing of it", text, err)
		}
	}
}
