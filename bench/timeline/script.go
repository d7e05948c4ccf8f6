package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const (
	// prelude bounds the time until every contender holds or waits.
	prelude = time.Minute
	// epilogue bounds, in session timeouts, the time from the heal until every holder is
	// connected again. A client may still wait for the answer to a request that it sent
	// during the partition.
	epilogue = 10
)

// script is the setup of one run.
type script struct {
	server  string // host:port
	timeout time.Duration
	tick    time.Duration
	healed  time.Duration // after the cut
	contest []library
	command func(l library, at seat) *exec.Cmd // returns the command that runs a contender
	say     func(format string, args ...any)   // reports the progress
}

// play runs the script once, with locks below the folder. It cuts the network once all
// contenders have been idle for settle. It returns the time of the cut, and every report
// after it.
func (s *script) play(
	ctx context.Context, folder string, settle time.Duration,
) (cut time.Time, notes []note, err error) {
	link, err := ensemble.NewProxy(s.server)
	if err != nil {
		return cut, nil, err
	}
	defer func() { err = errors.Join(err, link.Close()) }()
	watch, err := peers.NewWatcher(s.server)
	if err != nil {
		return cut, nil, err
	}
	defer watch.Close()

	c := &cast{script: s, recorder: &recorder{more: make(chan struct{}, 1)}, folder: folder}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.enter(ctx, link.Addr(), watch); err != nil {
		return cut, nil, err
	}
	c.recorder.take()
	if err := c.recorder.during(ctx, settle); err != nil {
		return cut, nil, err
	}
	for _, n := range c.recorder.take() {
		if n.what != toldConnected { // a library may report the connection after it has begun to work
			return cut, nil, fmt.Errorf("%s: before anything was cut, the %v was told %v: %s", n.library, n.who, n.what, n.own)
		}
	}

	link.Hold(ensemble.BothWays)
	cut = time.Now()
	if err := c.recorder.during(ctx, s.healed); err != nil {
		return cut, nil, err
	}
	link.Heal()
	if err := c.reunite(ctx, time.Now()); err != nil {
		return cut, nil, err
	}
	return cut, c.recorder.take(), nil
}

// cast has the contenders of one run.
type cast struct {
	script    *script
	recorder  *recorder
	folder    string
	processes []*peers.Process
}

func (c *cast) path(l library) string { return c.folder + "/" + l.Key }

// enter starts all contenders, and returns once one contender of each library holds the
// lock and the other one waits for it.
func (c *cast) enter(ctx context.Context, proxy string, watch *peers.Watcher) error {
	ctx, cancel := context.WithTimeout(ctx, prelude)
	defer cancel()
	// Start all holders at once, because a virtual machine takes a while to start. Start
	// the others once the holders hold.
	for _, l := range c.script.contest {
		if err := c.start(l, holder, proxy); err != nil {
			return err
		}
	}
	for _, l := range c.script.contest {
		granted := func(n note) bool { return n.library == l.Key && n.what == toldGranted }
		if err := c.recorder.until(ctx, granted); err != nil {
			return fmt.Errorf("waiting for the first grant of %s: %w", l.Name, err)
		}
	}
	for _, l := range c.script.contest {
		if err := c.start(l, next, c.script.server); err != nil {
			return err
		}
	}
	for _, l := range c.script.contest {
		gone := func(at time.Time) {
			c.recorder.hear(note{at: at, library: l.Key, who: observer, what: toldLost, own: "the holder's node is gone"})
		}
		if err := queue(ctx, watch, c.path(l), gone); err != nil {
			_, failed := c.recorder.look(func(note) bool { return true })
			return errors.Join(err, failed)
		}
	}
	return nil
}

func (c *cast) start(l library, role who, addr string) error {
	at := seat{Addr: addr, Path: c.path(l), Timeout: c.script.timeout, Tick: c.script.tick}
	p, err := peers.Start(c.script.command(l, at), func(line peers.Line) {
		if told, own, ok := parseTold(line.Text); ok {
			c.recorder.hear(note{at: line.At, library: l.Key, who: role, what: told, own: own})
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	c.processes = append(c.processes, p)
	go func() { // runs until the process has exited, which close ensures
		<-p.Ended()
		why := "its process ended\n" + p.Complaints()
		c.recorder.hear(note{at: time.Now(), library: l.Key, who: role, what: toldFailed, own: why})
	}()
	return nil
}

// reunite waits until every holder is connected again. If one is not, that is not an
// error but a result.
func (c *cast) reunite(ctx context.Context, healed time.Time) error {
	limited, cancel := context.WithTimeout(ctx, epilogue*c.script.timeout)
	defer cancel()
	for _, l := range c.script.contest {
		err := c.recorder.until(limited, func(n note) bool {
			return n.library == l.Key && n.who == holder && n.what == toldConnected && n.at.After(healed)
		})
		if err != nil && ctx.Err() == nil && limited.Err() != nil {
			c.script.say("%s: the holder is not connected again %v after the link has healed", l.Name, epilogue*c.script.timeout)
		} else if err != nil {
			return err
		}
	}
	return c.recorder.during(ctx, time.Second) // for events that follow immediately
}

func (c *cast) close() error {
	return peers.Together(len(c.processes), func(i int) error { return c.processes[i].Close() })
}

// pollInterval is the time between two listings of an incomplete queue.
const pollInterval = 20 * time.Millisecond

// queue waits until two contenders are queued at the path. It calls gone in another
// goroutine when the first one's node is deleted.
func queue(ctx context.Context, w *peers.Watcher, path string, gone func(at time.Time)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		names, err := w.Children(path)
		if err != nil {
			return err
		}
		if len(names) == 2 {
			first := slices.MinFunc(names, func(a, b string) int {
				na, _ := events.ParseName(a)
				nb, _ := events.ParseName(b)
				return events.CompareNames(na, nb)
			})
			return w.Guard(path+"/"+first, gone)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d instead of 2 stand at %s: %w", len(names), path, context.Cause(ctx))
		}
	}
}
