package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without accidents, the money stays what it was.
func TestTheMoneyStaysWhatItWas(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Server.Intercept(func(r zktest.Request) zktest.Action { // time passes only while a goroutine waits
			if r.Op == zktest.OpMulti {
				return zktest.Delay(time.Millisecond)
			}
			return zktest.Pass()
		})
		p.For(t, time.Second, func(ctx context.Context) error { return run(ctx, p, p.ZK, 6) })
		p.Must(t, ", 0 that a loss prevented", "together 4000, as in the beginning")
	})
}

// Connections break, sessions end and nodes are deleted, and the money stays what it was.
func TestAccidents(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		server := p.Server
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		random := rand.New(rand.NewPCG(1, 1))
		server.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpMulti {
				return zktest.Delay(100 * time.Millisecond)
			}
			return zktest.Pass()
		})
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, p, p.ZK, 6) }()
		for ctx.Err() == nil {
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
			name := names[random.IntN(len(names))]
			ids := server.Sessions()
			if len(ids) < 2 {
				continue
			}
			id := ids[1+random.IntN(len(ids)-1)] // the first is the plain client's, which has nothing to lose
			switch random.IntN(3) {
			case 0:
				_ = server.Expire(id)
			case 1:
				server.Cut(id)
			default:
				for _, node := range server.Children(lockRoot + "/" + name) {
					_ = server.Delete(lockRoot + "/" + name + "/" + node)
				}
			}
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the program ended with %v, want %v", err, context.DeadlineExceeded)
		}
		p.Must(t, "together 4000, as in the beginning")
	})
}

// A teller that loses a lock in the middle changes nothing.
func TestAPastTellerChangesNothing(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		server := p.Server
		reads, root, closed, err := p.ZK.Client()
		if err != nil {
			t.Fatal(err)
		}
		defer closed()
		if err := open(reads, root); err != nil {
			t.Fatal(err)
		}
		b := &bank{c: p.Connect(t), reads: reads, root: root}
		server.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpGetData && r.Path == accountRoot+"/ben" {
				go func() { // before the answer comes, the second lock is gone
					for _, node := range server.Children(lockRoot + "/ben") {
						_ = server.Delete(lockRoot + "/ben/" + node)
					}
				}()
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		if err := b.transfer(t.Context(), "anna", "ben", 10); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("a transfer under a lost lock: %v, want %v", err, coordinator.ErrNodeRemoved)
		}
		server.Intercept(func(zktest.Request) zktest.Action { return zktest.Pass() })
		if err := b.transfer(t.Context(), "ben", "anna", start+1); !errors.Is(err, errNoFunds) {
			t.Errorf("a transfer of more than there is: %v, want %v", err, errNoFunds)
		}
		for _, name := range []string{"anna", "ben"} {
			if a, err := b.balance(name); err != nil || a.amount != start {
				t.Errorf("%s has %+v, %v; want %d", name, a, err, start)
			}
		}
	})
}
