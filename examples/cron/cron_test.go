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

	minutes []int // when the job ran, counted from the start of the bubble
	tokens  []int64
}

// start is begin, but returns once the instance leads or stands by.
func start(t *testing.T, server *zktest.Server, long time.Duration) *instance {
	t.Helper()
	i := begin(t, server, long)
	if err := i.zk.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return i
}

// begin starts an instance that runs a job each minute. A job takes long, unless its
// context ends.
func begin(t *testing.T, server *zktest.Server, long time.Duration, options ...coordinator.Option) *instance {
	t.Helper()
	zk, err := coordinator.Open(server.Addr(), append(options, server.Option())...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	i := &instance{zk: zk, stop: stop, ended: make(chan error, 1)}
	c := &cron{every: time.Minute, job: func(ctx context.Context, at time.Time, token int64) error {
		i.minutes = append(i.minutes, int(at.Sub(at.Truncate(24*time.Hour)).Minutes())) // a bubble begins at midnight
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

// stops stops the instance, and checks that it ends at once.
func (i *instance) stops(t *testing.T) {
	t.Helper()
	told := time.Now()
	i.stop()
	if err := <-i.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the instance ended with %v, want %v", err, context.Canceled)
	}
	if took := time.Since(told); took != 0 {
		t.Errorf("the instance stopped %v after the signal, want at once", took)
	}
}

// must checks in which minutes the job has run. Call it in the middle of a minute.
func (i *instance) must(t *testing.T, when string, minutes ...int) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(i.minutes, minutes) {
		t.Errorf("%s: the job has run at %v, want %v", when, i.minutes, minutes)
	}
}

// The job runs only on the leader, once a minute. After a signal or a loss another
// instance leads.
func TestTheJobRunsOnOneInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ann, bob := start(t, server, time.Second), start(t, server, time.Second)
		time.Sleep(2*time.Minute + 30*time.Second)
		ann.must(t, "ann leads", 1, 2)
		bob.must(t, "ann leads")

		if err := server.Expire(ann.zk.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		ann.must(t, "ann has lost the lead", 1, 2)
		bob.must(t, "ann has lost the lead", 3, 4)

		bob.stops(t)
		time.Sleep(time.Minute)
		ann.must(t, "bob is gone", 1, 2, 5)
		if ann.tokens[1] >= bob.tokens[0] || bob.tokens[0] != bob.tokens[1] || bob.tokens[1] >= ann.tokens[2] {
			t.Errorf("the tokens are ann's %v and bob's %v, want one a term, and growing", ann.tokens, bob.tokens)
		}
		ann.stops(t)
		if left := server.Children(electionPath); len(left) > 0 {
			t.Errorf("left behind: %v, want no node", left)
		}
	})
}

// A signal ends the wait of a standby, and the leader goes on. A signal ends the running
// job, and the leader resigns. A long job skips the times that it overlaps.
func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ann, bob := start(t, server, 150*time.Second), start(t, server, time.Second)
		start(t, server, time.Second).stops(t)
		time.Sleep(5 * time.Minute)
		ann.must(t, "a job takes two minutes and a half", 1, 4)
		ann.stops(t)
		time.Sleep(time.Minute)
		bob.must(t, "ann is gone", 6)
		bob.stops(t)
	})
}

// If the server starts late, the job runs from the next full minute on.
func TestTheServerComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		server.Down(true)
		ann := begin(t, server, time.Second)
		time.Sleep(150 * time.Second)
		ann.must(t, "there is no server")
		server.Down(false)
		time.Sleep(time.Minute)
		ann.must(t, "there is a server", 3)
		ann.stops(t)
	})
}

// Refused credentials will not become valid, so the process exits.
func TestRefusedCredentialsEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := begin(t, zktest.Start(t), time.Second, coordinator.WithAuth("nosuchscheme", nil))
		if err := <-ann.ended; !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("the instance ended with %v, want %v", err, coordinator.ErrNoAuth)
		}
	})
}
