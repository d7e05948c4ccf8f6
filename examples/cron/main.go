// Command cron runs a job at fixed times on the leading instance; the others stand by.
//
// All instances campaign in one election. SIGTERM ends the job's context, and another
// instance leads a moment later. An instance that loses its term campaigns again.
//
// Limitation: a time that passes without a leader is skipped. A time may run twice if the
// leader's clock is set back, or near a change of leader if the instances' clocks differ.
// The job therefore receives the time, to store with its results, next to the token.
//
// To use it, copy this folder and replace job. cron_test.go tests it in virtual time.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// electionPath is relative to the chroot that -zk names.
const electionPath = "/locks/cron"

func main() {
	servers := flag.String("zk", "localhost:2181", "ZooKeeper's `servers`, as host:port,host:port/chroot")
	every := flag.Duration("every", time.Minute, "the time between two runs of the job; they begin at multiples of it")
	flag.Parse()
	if *every <= 0 {
		log.Fatal("cron: -every must be above 0")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal is not caught
	if err := run(ctx, *servers, &cron{job, *every}); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

// job does the work due at one time. ctx ends when the term is lost, or on a signal. Send
// the token with every write to another store, so that the store can refuse a past
// leader: ../fencedwriter has the SQL.
func job(_ context.Context, at time.Time, token int64) error {
	log.Printf("the job of %s, token %d", at.Format(time.TimeOnly), token)
	return nil
}

// run campaigns until ctx ends, even while no server can be reached.
func run(ctx context.Context, servers string, c *cron) error {
	zk, err := coordinator.Open(servers, coordinator.WithSessionTimeout(10*time.Second)) // add WithAuth or WithTLS here
	if err != nil {
		return err
	}
	defer zk.Close() // resigns
	return c.run(ctx, zk)
}

// cron runs a job at the multiples of a duration.
type cron struct {
	job   func(ctx context.Context, at time.Time, token int64) error
	every time.Duration
}

// run campaigns until ctx ends, again after each term. It returns any other error, since
// waiting would not cure it.
func (c *cron) run(ctx context.Context, zk *coordinator.Coordinator) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if err := zk.Ready(ctx); err != nil { // the servers refuse our credentials, or ctx has ended
			end(err)
		}
	}()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	for term, err := range zk.Election(electionPath).Terms(ctx, coordinator.Data([]byte(host))) { // Observe and Queue show the data
		if err != nil {
			return err
		}
		c.lead(ctx, term)
	}
	return nil
}

// lead runs the job at each time until the term is lost or ctx ends. When it returns, no
// job is running, so another instance may lead.
func (c *cron) lead(ctx context.Context, term *coordinator.Acquisition) {
	token := term.Grant().Token
	log.Printf("leads, token %d", token)
	held := term.Context(ctx) // ends with the term, and with ctx
	for {
		at := time.Now().Truncate(c.every).Add(c.every) // a long job skips the times that it overlaps
		select {
		case <-ctx.Done():
			return
		case lost := <-term.Lost():
			log.Printf("LOST the lead: %v", lost.Reason)
			return
		case <-time.After(time.Until(at)):
			// Check Valid, since the process may have been paused after the grant, and
			// ctx.Err, since select picks any ready channel.
			if term.Valid() && ctx.Err() == nil {
				if err := c.job(held, at, token); err != nil {
					log.Printf("the job of %s has failed: %v", at.Format(time.TimeOnly), err)
				}
			}
		}
	}
}
