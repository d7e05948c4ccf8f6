//go:build unix

package histories

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// holdJob holds the lock again and again, each time until it is lost.
func holdJob(ctx context.Context, c *coordinator.Coordinator, j job, up *parent) error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	for {
		lock := c.Mutex(j.Path).Acquire(ctx)
		grant, err := lock.Wait(ctx)
		if err != nil {
			return err
		}
		select {
		case <-continued: // the previous signal, if it came after the loss
		default:
		}
		if err := up.out.Encode(message{Kind: "granted", fence: fence{Token: grant.Token}}); err != nil {
			return err
		}
		// The first goroutine that is awake after the pause calls Valid at once, and
		// keeps calling it until the loss is read.
		asking, enough := context.WithCancel(ctx)
		believed := make(chan message, 1)
		go func() { believed <- believes(asking, lock, continued) }()
		var lost events.Lost
		select {
		case lost = <-lock.Lost():
		case <-up.said: // the parent has hung up
			enough()
			return nil
		}
		at := machineTime()
		enough()
		told := <-believed
		if lock.Valid() {
			told.Believed = at
		}
		<-lock.Done()
		told.Kind, told.Time, told.Reason = "lost", at, lost.Reason.String()
		if _, err := up.ask(told); err != nil {
			return err
		}
	}
}

// believes calls Valid once the process is continued, and then until ctx ends. It returns
// when it first ran, and when Valid was last true.
func believes(ctx context.Context, lock *coordinator.Acquisition, continued <-chan os.Signal) (m message) {
	select {
	case <-continued:
		m.Awake = machineTime()
	case <-ctx.Done():
		return m
	}
	ticker := time.NewTicker(100 * time.Microsecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if at := machineTime(); lock.Valid() {
			m.Believed = at
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return m
}
