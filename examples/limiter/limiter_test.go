package main

import (
	"context"
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

// The limit is reached, raised, reached again, and never exceeded; half the time one
// of the instances is cut off for longer than its session lasts.
func TestLimiter(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		screen := &stagetest.Screen{}
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, screen, program.Within(server, 6*time.Second), options{limit: 4, raised: 6, raise: time.Minute})
		}()
		if err := stagetest.Accidents(server, 15*time.Second, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		screen.Must(t, "there are 6 permits now", "at most 6 permits in use")
		if screen.Count("a big job begins") < 20 {
			t.Errorf("the big jobs are kept out:\n%s", screen)
		}
		if left := append(server.Children(jobsLock+"/leases"), server.Children(jobsLock+"/locks")...); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// Before the limit is raised it is the lower one.
func TestLowerLimit(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		screen := &stagetest.Screen{}
		err := run(ctx, screen, program.Within(zktest.Start(t), 6*time.Second), options{limit: 4, raised: 6, raise: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		screen.Must(t, "at most 4 permits in use")
	})
}

// More than there may be does not go unnoticed.
func TestUsage(t *testing.T) {
	u := &usage{limit: 4}
	done, err := u.begin(3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.begin(2); !errors.As(err, new(*exceededError)) {
		t.Errorf("%v: 5 permits are in use, and there are 4", err)
	}
	done()
	if _, err := u.begin(3); err != nil {
		t.Error(err)
	}
}
