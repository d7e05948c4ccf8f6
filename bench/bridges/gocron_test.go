package bridges

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/bridge/gocronlock"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

var (
	_ gocron.Elector = (*bridge.Elector)(nil)
	_ gocron.Locker  = (*gocronlock.Locker)(nil)
)

func schedule(s stage, when gocron.JobDefinition, job any, scheduler gocron.SchedulerOption, options ...gocron.JobOption) {
	s.Helper()
	g, err := gocron.NewScheduler(scheduler, gocron.WithStopTimeout(time.Minute))
	eventstest.Must(s, err)
	_, err = g.NewJob(when, gocron.NewTask(job), append(options, gocron.WithName("the job"))...)
	eventstest.Must(s, err)
	g.Start()
	s.Cleanup(func() { eventstest.Check(s, g.Shutdown()) })
}

// TestGocronsLeaderRunsTheJobs: only the leader runs jobs. A loss ends the context of the
// running job, and the other scheduler runs the next jobs.
func TestGocronsLeaderRunsTheJobs(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		const path, every = "/leader", time.Minute
		type run struct {
			who string
			at  time.Time
		}
		ran, cut, told := make(chan run, 99), make(chan struct{}, 1), make(chan error, 1)
		ctx, stop := context.WithCancel(s.Context())
		ended := make(chan error, 2)
		options := []gocron.JobOption{
			gocron.WithSingletonMode(gocron.LimitModeReschedule), gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(every))),
		}
		for i, who := range []string{"first", "second"} {
			c := s.process()
			elector := bridge.NewElector(c.Election(path))
			go func() { ended <- elector.Run(ctx) }()
			s.queued(s.process().Mutex(path), i+1)
			schedule(s, gocron.DurationJob(every), func(ctx context.Context) {
				ran <- run{who, time.Now()}
				select {
				case <-cut:
				default:
					return
				}
				term, ok := elector.Term()
				if !ok {
					s.Error("the job of the leader finds no term")
					return
				}
				s.lose(c)
				job := term.Context(ctx)
				<-job.Done()
				told <- context.Cause(job)
			}, gocron.WithDistributedElector(elector), options...)
		}
		var last time.Time
		expect := func(who string) {
			s.Helper()
			now := <-ran
			eventstest.Equal(s, now.who, who, "who ran the job")
			eventstest.Expect(s, now.at.Sub(last) >= every,
				"a run at %v, and one at %v, want one each %v", last, now.at, every)
			last = now.at
		}
		expect("first")
		expect("first")
		cut <- struct{}{}
		s.isLoss(<-told, "what the job that runs is told")
		for before := len(ran); (<-ran).who == "first"; before-- {
			if before == 0 {
				s.Fatal("the job was run by the first after its loss, want the second")
			}
		}
		last = time.Time{} // the second scheduler may have run in the minute of the loss
		expect("second")
		expect("second")
		stop()
		for range 2 {
			eventstest.ErrorIs(s, <-ended, context.Canceled, "the end of Run")
		}
	})
}

// TestGocronRunsAShortJobOnce: the second scheduler's clock is slow by more than the job
// takes. With a minimum, each tick runs once. Without one, it runs on both schedulers.
func TestGocronRunsAShortJobOnce(t *testing.T) {
	t.Parallel()
	const behind = 2 * time.Second
	for minimum, want := range map[time.Duration]int{0: 2, 10 * time.Second: 1} {
		t.Run(fmt.Sprint("minimum ", minimum), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(s stage) {
				var mu sync.Mutex
				ran := map[int]int{} // by hour
				begin := time.Now().Add(time.Hour)
				for i := range 2 {
					locker := gocronlock.New(s.process(), "/jobs", minimum, gocronlock.OnLost(func(err error) { s.Errorf("OnLost: %v", err) }))
					s.Cleanup(func() { eventstest.Check(s, locker.Shutdown(context.WithoutCancel(s.Context()))) }) // after the scheduler
					schedule(s, gocron.DurationJob(time.Hour), func() {
						mu.Lock()
						defer mu.Unlock()
						ran[int(time.Since(begin)/time.Hour)]++
					}, gocron.WithDistributedLocker(locker), gocron.WithStartAt(gocron.WithStartDateTime(begin.Add(time.Duration(i)*behind))))
				}
				time.Sleep(time.Until(begin.Add(5*time.Hour - time.Minute)))
				mu.Lock()
				defer mu.Unlock()
				for hour := range 5 {
					eventstest.Equal(s, ran[hour], want, "how often the job ran in hour %d", hour)
				}
			})
		})
	}
}

// TestGocronSkipsALockedJob: gocron skips the job as long as the lock is held, and the
// listener gets an error that names the holder.
func TestGocronSkipsALockedJob(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		var mu sync.Mutex
		var ran []string
		run := func(who string, c *coordinator.Coordinator) (*gocronlock.Locker, error) {
			locker, over := gocronlock.New(c, "/jobs", time.Hour), make(chan error, 1)
			schedule(s, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), func() {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, who)
			}, gocron.WithDistributedLocker(locker), gocron.WithEventListeners(
				gocron.AfterJobRuns(func(uuid.UUID, string) { over <- nil }),
				gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { over <- err }),
			))
			return locker, <-over
		}
		first, second := s.process(), s.process()
		locker, err := run("first", first)
		eventstest.Must(s, err)
		_, err = run("second", second)
		if held := (*events.HeldError)(nil); !errors.As(err, &held) || held.Holder.Session != first.SessionID() {
			s.Errorf("behind the short job the second scheduler gets %v, want the first one's session", err)
		}
		eventstest.Must(s, locker.Close())
		s.queued(second.Unfair(bridge.Path("/jobs", "the job")), 0)
		locker, err = run("third", second)
		eventstest.Check(s, err)
		eventstest.Check(s, locker.Close())
		eventstest.Equal(s, ran, []string{"first", "third"}, "who ran the job")
	})
}
