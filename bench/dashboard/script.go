package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// The script: the times since its start.
const (
	cut      = 1                // instance b
	cutOff   = 20 * time.Second // it is cut off from the servers
	healed   = 30 * time.Second
	askedFor = 45 * time.Second // the backup's lock is asked back, and not given back in time
	grace    = 3 * time.Second
	over     = 70 * time.Second
)

// script lets each instance work under some locks, and causes the faults. It returns when all of that is over.
func script(ctx context.Context, all []*instance) error {
	ctx, cancel := context.WithTimeout(ctx, over)
	defer cancel()
	var working sync.WaitGroup
	for n, i := range all {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		jobs := map[*coordinator.Lock]work{
			i.Mutex("/jobs/report"): {hold: 3 * time.Second, rest: 4 * time.Second},
			i.Mutex("/jobs/index"):  {hold: time.Second, rest: 3 * time.Second},
			i.Mutex("/jobs/mail"):   {hold: 50 * time.Millisecond, rest: 600 * time.Millisecond},
		}
		if n == len(all)-1 {
			jobs[i.Mutex("/jobs/backup", coordinator.Revocable())] = work{hold: 2 * over, rest: 4 * time.Second} // longer than the time that it gets
		}
		for lock, w := range jobs {
			random := rand.New(rand.NewPCG(rng.Uint64(), 2))
			working.Go(func() { w.repeat(ctx, random, lock.Do) })
		}
		exports := i.Semaphore("/limits/exports", 3)
		for range 2 {
			random := rand.New(rand.NewPCG(rng.Uint64(), 3))
			working.Go(func() { work{hold: 2 * time.Second, rest: time.Second}.repeat(ctx, random, exports.Do) })
		}
		working.Go(func() {
			if n != cut && pause(ctx, time.Second) != nil { // so that the instance that is cut off leads
				return
			}
			for term, err := range i.Election("/leader").Terms(ctx) {
				if err != nil {
					return
				}
				<-term.Context(ctx).Done()
			}
		})
	}
	err := faults(ctx, all)
	working.Wait()
	return err
}

// faults causes the faults, and waits for their end.
func faults(ctx context.Context, all []*instance) error {
	begun := time.Now()
	until := func(at time.Duration) error { return pause(ctx, time.Until(begun.Add(at))) }
	if err := until(cutOff); err != nil {
		return err
	}
	all[cut].network.Partition()
	if err := until(healed); err != nil {
		return err
	}
	all[cut].network.Heal()
	if err := until(askedFor); err != nil {
		return err
	}
	if err := all[0].Revoke(ctx, "/jobs/backup", grace); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// work is done under a lock again and again.
type work struct{ hold, rest time.Duration }

func (w work) repeat(ctx context.Context, random *rand.Rand, do func(context.Context, func(context.Context, events.Grant) error, ...coordinator.AcquireOption) error) {
	about := func(d time.Duration) time.Duration { return d/2 + time.Duration(random.Int64N(int64(d))) }
	for ctx.Err() == nil {
		err := do(ctx, func(ctx context.Context, _ events.Grant) error { return pause(ctx, about(w.hold)) }, coordinator.WithMaxWait(5*time.Second))
		if errors.Is(err, coordinator.ErrClosed) {
			return
		}
		if pause(ctx, about(w.rest)) != nil {
			return
		}
	}
}
