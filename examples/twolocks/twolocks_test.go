package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The first instance shuts down, and the second has what it had.
func TestShutdown(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		screen := &stagetest.Screen{}
		if err := run(ctx, screen, program.Within(server, 6*time.Second), 30*time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		t.Log(screen)
		screen.Must(t, "second  has the report", "second  has the cleanup", "first   shut down", "second  shut down")
		if left := server.Sessions(); len(left) > 0 {
			t.Errorf("sessions left: %v", left)
		}
	})
}

// One of the two locks is somebody else's: the other one's job works meanwhile. Then
// the session ends, and both are asked for again.
func TestSelect(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		zk := program.Within(server, 6*time.Second)
		connect := func() *coordinator.Coordinator {
			c, err := coordinator.Connect(t.Context(), zk.Servers, zk.Options()...)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		other := connect()
		rival := other.Mutex(lockRoot + "/report").Acquire(t.Context())
		if _, err := rival.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}

		c := connect()
		screen := &stagetest.Screen{}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- serve(ctx, c, func(format string, args ...any) { fmt.Fprintf(screen, format+"\n", args...) })
		}()
		counts := func(cleanup, report, lost int) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := [3]int{screen.Count("has the cleanup"), screen.Count("has the report"), screen.Count("LOST")}; got != [3]int{cleanup, report, lost} {
				t.Errorf("had the cleanup, had the report, lost: %v, want %v\n%s", got, [3]int{cleanup, report, lost}, screen)
			}
		}
		counts(1, 0, 0)
		rival.Release()
		counts(1, 1, 0)
		if err := server.Expire(c.SessionID()); err != nil {
			t.Fatal(err)
		}
		counts(2, 2, 2)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if nodes := append(server.Children(lockRoot+"/report"), server.Children(lockRoot+"/cleanup")...); len(nodes) > 0 {
			t.Errorf("left behind: %v", nodes)
		}
		for _, c := range []*coordinator.Coordinator{c, other} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
