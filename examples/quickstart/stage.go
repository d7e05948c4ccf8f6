package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("quickstart", stderr)
	hold := p.Flags.Duration("hold", 600*time.Millisecond, "how long each contender works under the lock")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *hold)
	})
}

// run plays the whole scene and prints it. If ctx ends first, it releases everything and
// returns program.ErrInterrupted. Any other error says what went wrong or which promise
// was broken.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, hold time.Duration) error {
	names := []string{"ann", "bob", "cid", "dee", "eve"}
	fmt.Fprintf(out, "\n%d contenders for one lock, %s, on %s\n\n", len(names), lockPath, zk)
	book := newLedger(names)
	err := play(ctx, out, book, zk, hold)
	if ctx.Err() != nil {
		err = program.ErrInterrupted
	}
	// No node may be left, even if the scene was interrupted.
	left := nothingLeft(context.WithoutCancel(ctx), zk)
	if left == nil && err != nil {
		fmt.Fprintln(out, "nodes left: 0")
	}
	if err != nil {
		return errors.Join(err, left)
	}
	summary(out, book, left)
	return errors.Join(book.verify(), left)
}

// play starts the contenders so that they queue up in order, and waits until all of them
// have done their work.
func play(ctx context.Context, out io.Writer, book *ledger, zk *program.ZooKeeper, hold time.Duration) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var crew sync.WaitGroup
	lines := &timeline{out: out, begin: time.Now()}
	for i, name := range book.names {
		r := &role{
			name: name, zk: zk, hold: hold, book: book, lines: lines, crew: &crew,
			gate: zk.NewGate(), doomed: i == len(book.names)/2, inQueue: make(chan struct{}),
		}
		crew.Go(func() {
			if err := contend(ctx, r); err != nil {
				fail(fmt.Errorf("%s: %w", name, err)) // the others need not go on
			}
		})
		select {
		case <-r.inQueue:
		case <-ctx.Done():
		}
	}
	crew.Wait()
	return context.Cause(ctx)
}

// role is everything about a contender but its lock: its work (it waits for a while), its
// reports, and whether it is cut off while it works. Only the contender's goroutine calls
// its methods.
type role struct {
	name    string
	zk      *program.ZooKeeper
	hold    time.Duration // how long it works
	book    *ledger
	lines   *timeline
	crew    *sync.WaitGroup
	gate    *program.Gate // its connections to the servers
	doomed  bool          // it will be cut off while it works
	inQueue chan struct{} // closed once it is in the queue

	play    context.Context // for the whole play, used by strike
	news    <-chan events.Event
	done    <-chan time.Time // ready when the work is done; nil while there is none
	queued  bool             // inQueue is closed
	holding bool
	since   time.Time // the time of the grant
}

// options returns the options for the contender's coordinator.
func (r *role) options() []coordinator.Option {
	return append(r.zk.Options(), coordinator.WithDialer(r.gate.DialContext))
}

// enter is called once, before the contender queues up.
func (r *role) enter(ctx context.Context, c *coordinator.Coordinator) {
	r.book.arrive(r.name, c.SessionID())
	r.play, r.news = ctx, c.Events(ctx)
}

// start starts the work.
func (r *role) start(grant events.Grant, valid func() bool) {
	r.holding, r.since = true, time.Now()
	next := r.book.enter(r.name, grant, valid)
	name, _ := events.ParseName(path.Base(grant.Node))
	r.say("granted", "token %#x, number %d in the queue, waited %v", grant.Token, name.Seq, short(grant.Waited))
	r.standing()
	if !r.doomed {
		r.done = time.After(r.hold)
		return
	}
	r.doomed = false
	r.crew.Go(func() { r.strike(next) })
}

// strike cuts the contender off in the middle of its work, until the next contender has
// the lock. The work stays undone.
func (r *role) strike(next <-chan struct{}) {
	defer r.gate.Open()
	select {
	case <-time.After(r.hold / 2):
		r.say("struck", "its network is cut")
		r.gate.Shut()
	case <-r.play.Done():
	}
	select {
	case <-next:
	case <-r.play.Done():
	}
}

// finish reports that the work is done.
func (r *role) finish() {
	r.stop() // before Release, after which another contender may hold the lock
	r.say("released", "its work is done")
}

// stop ends the work. It does nothing if no work was started.
func (r *role) stop() {
	r.holding, r.done = false, nil
	r.book.leave(r.name)
}

// lost reports a loss.
func (r *role) lost(reason events.Reason) {
	r.book.lose(r.name)
	r.say("LOST", "%v after %v; stops its work", reason, short(time.Since(r.since)))
}

// report prints the events that have no channel of their own.
func (r *role) report(ev events.Event) {
	switch ev := ev.(type) {
	case events.Queued:
		r.say("queued", "%d ahead", ev.Ahead)
		r.standing()
	case events.Requeued:
		r.say("requeued", "its place was lost")
	case events.Suspended:
		what := "no connection; keeps its place while the session lives"
		if r.holding {
			what = fmt.Sprintf("no connection; the lock is good for another %v", short(time.Until(ev.Deadline)))
		}
		r.say("suspended", "%s", what)
	case events.Resumed:
		r.say("resumed", "connected again, in the same session")
	case events.SessionExpired:
		r.say("expired", "session %#x is over", ev.Session)
	case events.Connected:
		r.say("connected", "session %#x at %s", ev.Session, ev.Server)
	default: // others, or nil if ctx has ended the stream
	}
}

// standing reports that the contender is in the queue.
func (r *role) standing() {
	if !r.queued {
		r.queued = true
		close(r.inQueue)
	}
}

func (r *role) say(what, format string, args ...any) {
	r.lines.add(r.name, what, fmt.Sprintf(format, args...))
}

// timeline prints the events, one per line. Its methods may be called from any goroutine.
type timeline struct {
	begin time.Time

	mu  sync.Mutex
	out io.Writer
}

// add prints one event.
func (t *timeline) add(who, what, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "  %7.3fs  %-4s  %-9s  %s\n", time.Since(t.begin).Seconds(), who, what, detail)
}

// summary prints whether the promises were kept.
func summary(out io.Writer, book *ledger, left error) {
	yes := func(problems []string) string {
		if len(problems) == 0 {
			return "yes"
		}
		return "NO: " + strings.Join(problems, "; ")
	}
	nodes := "0"
	if left != nil {
		nodes = left.Error()
	}
	fmt.Fprintln(out)
	for _, row := range [][2]string{
		{"grants in order", strings.Join(book.history(), ", ")},
		{"first come, first served", yes(book.overtaken())},
		{"one at a time", yes(book.overlaps)},
		{"tokens growing", yes(book.stale())},
		{"nodes left", nodes},
	} {
		fmt.Fprintf(out, "  %-24s  %s\n", row[0], row[1])
	}
	fmt.Fprintln(out)
}

// nothingLeft returns an error if a plain client still sees a node. A contender that
// could not delete its node leaves it until its session ends, so nothingLeft waits for
// that.
func nothingLeft(ctx context.Context, servers *program.ZooKeeper) error {
	conn, root, closed, err := servers.Client() //nolint:contextcheck // it is closed below
	if err != nil {
		return err
	}
	defer closed()
	ctx, cancel := context.WithTimeout(ctx, 2*servers.Timeout)
	defer cancel()
	defer context.AfterFunc(ctx, conn.Close)() // the client's calls take no context
	for {
		// The server may lag behind the leader. Sync makes it catch up.
		_, err := conn.Sync(root + lockPath)
		var names []string
		if err == nil {
			names, _, err = conn.Children(root + lockPath)
		}
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d nodes are left in %s", len(names), lockPath), err)
		}
	}
}

// short rounds a duration for people.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
