package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a cron in a bubble, with its own session.
type instance struct {
	zk    *coordinator.Coordinator
	stop  context.CancelFunc // the signal
	ended chan error

	times  []time.Duration // of the job, since the beginning of the bubble
	tokens []int64
}

// start is begin, and returns when the instance leads or stands by.
func start(t *testing.T, server *zktest.Server, began time.Time, long time.Duration) *instance {
	t.Helper()
	i := begin(t, server, began, long)
	if err := i.zk.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return i
}

// begin starts an instance that runs a job each minute. A job takes that long, unless its context ends.
func begin(t *testing.T, server *zktest.Server, began time.Time, long time.Duration, options ...coordinator.Option) *instance {
	t.Helper()
	zk, err := coordinator.Open(server.Addr(), append(options, server.Option())...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	i := &instance{zk: zk, stop: stop, ended: make(chan error, 1)}
	c := &cron{every: time.Minute, job: func(ctx context.Context, at time.Time, token int64) error {
		i.times = append(i.times, at.Sub(began))
		i.tokens = append(i.tokens, token)
		select {
		case <-time.After(long):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	go func() {
		err := c.run(ctx, zk)
		i.ended <- errors.Join(err, zk.Close())
	}()
	t.Cleanup(stop)
	return i
}

// wait waits for the end of an instance that was told to stop, and checks its error.
func (i *instance) wait(t *testing.T) {
	t.Helper()
	if err := <-i.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the instance ended with %v, want %v", err, context.Canceled)
	}
}

// must fails the test unless the job has run at these times, in minutes since the beginning.
func (i *instance) must(t *testing.T, when string, minutes ...int) {
	t.Helper()
	synctest.Wait()
	var want []time.Duration
	for _, m := range minutes {
		want = append(want, time.Duration(m)*time.Minute)
	}
	if !slices.Equal(i.times, want) {
		t.Errorf("%s: the job has run at %v, want %v", when, i.times, want)
	}
}

// The job runs on the leader alone, once each minute. After a signal or a loss another instance leads.
func TestTheJobRunsOnOneInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := zktest.Start(t), time.Now()
		ann, bob := start(t, server, began, time.Second), start(t, server, began, time.Second)
		time.Sleep(2*time.Minute + 30*time.Second)
		ann.must(t, "ann leads", 1, 2)
		bob.must(t, "ann leads")

		if err := server.Expire(ann.zk.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		ann.must(t, "ann has lost the lead", 1, 2)
		bob.must(t, "ann has lost the lead", 3, 4)

		told := time.Now()
		bob.stop()
		bob.wait(t)
		if took := time.Since(told); took != 0 {
			t.Errorf("bob stopped %v after the signal, want at once", took)
		}
		time.Sleep(time.Minute)
		ann.must(t, "bob is gone", 1, 2, 5)
		if ann.tokens[1] >= bob.tokens[0] || bob.tokens[0] != bob.tokens[1] || bob.tokens[1] >= ann.tokens[2] {
			t.Errorf("the tokens are ann's %v and bob's %v, want one a term, and growing", ann.tokens, bob.tokens)
		}
		ann.stop()
		ann.wait(t)
		if left := server.Children(electionPath); len(left) > 0 {
			t.Errorf("left behind: %v, want no node", left)
		}
	})
}

// A signal ends the job under way, and the leader resigns. The standby goes on.
func TestASignalEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := zktest.Start(t), time.Now()
		ann, bob := start(t, server, began, time.Hour), start(t, server, began, time.Second)
		time.Sleep(90 * time.Second)
		ann.must(t, "the job runs", 1)
		ann.stop()
		ann.wait(t)
		if now := time.Since(began).Round(time.Second); now != 90*time.Second { // connecting takes some milliseconds
			t.Errorf("ann stopped at %v, want at the signal", now)
		}
		time.Sleep(time.Minute)
		bob.must(t, "ann is gone", 2)
		bob.stop()
		bob.wait(t)
	})
}

// A signal ends the wait of a standby, and the leader goes on.
func TestASignalEndsTheStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := zktest.Start(t), time.Now()
		ann, bob := start(t, server, began, time.Second), start(t, server, began, time.Second)
		bob.stop()
		bob.wait(t)
		time.Sleep(90 * time.Second)
		ann.must(t, "bob is gone", 1)
		ann.stop()
		ann.wait(t)
	})
}

// A long job skips the times that it overlaps.
func TestALongJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := zktest.Start(t), time.Now()
		ann := start(t, server, began, 150*time.Second)
		time.Sleep(5 * time.Minute)
		ann.must(t, "a job takes two minutes and a half", 1, 4)
		ann.stop()
		ann.wait(t)
	})
}

// The job runs from the first time after the server has come.
func TestTheServerComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := zktest.Start(t), time.Now()
		server.Down(true)
		ann := begin(t, server, began, time.Second)
		time.Sleep(150 * time.Second)
		ann.must(t, "there is no server")
		server.Down(false)
		time.Sleep(time.Minute)
		ann.must(t, "there is a server", 3)
		ann.stop()
		ann.wait(t)
	})
}

// Refused credentials do not become valid, so the process ends.
func TestRefusedCredentialsEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := begin(t, zktest.Start(t), time.Now(), time.Second, coordinator.WithAuth("nosuchscheme", nil))
		if err := <-ann.ended; !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("the instance ended with %v, want %v", err, coordinator.ErrNoAuth)
		}
	})
}
