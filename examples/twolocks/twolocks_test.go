package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The first instance shuts down, and the second has what it had.
func TestShutdown(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.For(t, 10*time.Minute, func(ctx context.Context) error { return run(ctx, p, p.ZK, 5*time.Minute) })
		p.Must(t, "second  has the report", "second  has the cleanup", "first   shut down", "second  shut down")
	})
}

// One of the two locks is somebody else's: the other one's job works meanwhile. Then
// the session ends, and both are asked for again.
func TestSelect(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		rival := p.Connect(t).Mutex(lockRoot + "/report").Acquire(t.Context())
		if _, err := rival.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}

		c := p.Connect(t)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- serve(ctx, c, p.Say)
		}()
		counts := func(cleanup, report, lost int) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := [3]int{p.Count("has the cleanup"), p.Count("has the report"), p.Count("LOST")}; got != [3]int{cleanup, report, lost} {
				t.Errorf("had the cleanup, had the report, lost: %v, want %v\n%s", got, [3]int{cleanup, report, lost}, p)
			}
		}
		counts(1, 0, 0)
		rival.Release()
		counts(1, 1, 0)
		if err := p.Server.Expire(c.SessionID()); err != nil {
			t.Fatal(err)
		}
		counts(2, 2, 2)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		p.Empty(t, lockRoot+"/report", lockRoot+"/cleanup")
	})
}
