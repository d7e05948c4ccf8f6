package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// probePart is the number of probes per session timeout, by default.
const probePart = 10

type effort struct {
	sessions  int
	processes int           // maximum for the crowd; 0 for as many as fit
	timeout   time.Duration // of the sessions
	tick      time.Duration // of the servers
	window    time.Duration // of holding
	rung      time.Duration // of holding with each number of sessions in the ladder
	ladder    []int         // numbers of sessions
	climbers  int           // processes of the crowds on the ladder
	halves    int           // how often to bisect the range between the last two
}

func effortOf(quick bool) effort {
	if quick {
		return effort{
			sessions: 100, timeout: 4 * time.Second, tick: 500 * time.Millisecond, window: 5 * time.Second,
			rung: 4 * time.Second, ladder: []int{50, 100, 200, 400}, climbers: 20, halves: 0,
		}
	}
	return effort{
		sessions: 1000, timeout: 10 * time.Second, tick: 2 * time.Second, window: 30 * time.Second,
		rung: 15 * time.Second, ladder: []int{250, 500, 1000, 2000, 4000, 8000}, climbers: 20, halves: 2,
	}
}

// interval is the time between two probes of a session.
func (e effort) interval() time.Duration { return e.timeout / probePart }

// bound is the longest outage that costs no lock; docs/production.md derives it.
func (e effort) bound() time.Duration { return e.timeout*95/100 - 2*e.interval() - e.tick*5/8 }

const (
	servers = 3
	// arrivals is how many sessions per second request their first lock, which costs more
	// than a probe.
	arrivals = 500
	// spareDescriptors is a server's need for descriptors other than for clients.
	spareDescriptors = 500
	// processMemory is reserved for each process of the crowd, and sessionMemory for each
	// session in it.
	processMemory = 24 << 20
	sessionMemory = 512 << 10
)

// errNeverHeld means that a crowd was not connected, or never held all its locks.
var errNeverHeld = errors.New("the sessions do not come to hold")

type director struct {
	effort
	e       *ensemble.Ensemble
	command func() *exec.Cmd // starts a process of the crowd
	say     func(format string, args ...any)
	folders int
}

func measure(ctx context.Context, e effort, quick bool, command func() *exec.Cmd, progress io.Writer) (r *Results, err error) {
	started := time.Now()
	d := &director{effort: e, command: command, say: func(format string, args ...any) {
		fmt.Fprintf(progress, "crowd: %5s  %s\n", time.Since(started).Round(time.Second), fmt.Sprintf(format, args...))
	}}
	r = &Results{
		Quick: quick, Cores: runtime.NumCPU(), Sessions: e.sessions, Timeout: e.timeout, Tick: e.tick,
		Interval: e.interval(), Bound: e.bound(), Versions: map[string]string{"Go": runtime.Version()},
	}
	if r.Descriptors, err = d.room(); err != nil {
		return nil, err
	}
	disk := peers.RAMDisk()
	r.RAMDisk = disk != ""
	d.say("starting %d servers", servers)
	server, err := peers.StartServer(ctx, disk, servers, ensemble.Tick(e.tick), ensemble.Heap("1g"),
		ensemble.Line("maxClientCnxns", "0"), // all clients have the same address
		// With ensemble's setting for tests, the server would keep removing empty
		// containers.
		ensemble.Property("znode.container.checkIntervalMs", "60000"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	d.e = server.Servers
	r.Versions["ZooKeeper"], r.Versions["Java"] = server.Version, server.JavaVersion
	if err := d.stages(ctx, r); err != nil {
		return nil, err
	}
	return r, d.climb(ctx, r)
}

// room checks that the largest crowd fits into memory, and into one server's descriptors,
// since that server may be alone while the others restart. It returns a server's limit of
// descriptors.
func (d *director) room() (uint64, error) {
	largest := max(d.sessions, slices.Max(d.ladder))
	free, err := peers.FreeMemory()
	if err != nil {
		return 0, err
	}
	if _, err := fit(largest, min(largest, d.climbers), free); err != nil {
		return 0, err
	}
	limit, err := peers.Descriptors()
	if err != nil {
		return 0, err
	}
	if need := uint64(largest + spareDescriptors); limit < need {
		return 0, fmt.Errorf("a process may have %d descriptors and %d sessions need %d: raise the hard limit (ulimit -n)", limit, largest, need)
	}
	return limit, nil
}

// fit returns the size of a crowd in that many processes, or for 0 in as many as fit. The
// crowd may use half of the free memory.
func fit(sessions, processes int, free int64) (size, error) {
	most := min(int64(sessions), (free/2-int64(sessions)*sessionMemory)/processMemory)
	if most < int64(max(processes, 1)) {
		return size{}, fmt.Errorf("%d sessions in %d processes do not fit into half of the free memory of %d MB", sessions, processes, free>>20)
	}
	if processes == 0 {
		processes = int(most)
	}
	return size{sessions, processes}, nil
}

// with runs f with a crowd in which each session holds a lock.
func (d *director) with(ctx context.Context, sessions, processes int, f func(*crowd)) error {
	free, err := peers.FreeMemory()
	if err != nil {
		return err
	}
	of, err := fit(sessions, processes, free)
	if err != nil {
		return err
	}
	d.say("connecting %d sessions in %d processes", of.sessions, of.processes)
	c := gather(ctx, d.command, of, opening{Servers: d.e.Connect(), Timeout: d.timeout, Tick: d.tick})
	c.folder = d.folder()
	c.tell(order{Verb: verbHold, Path: c.folder, Spread: d.spread(sessions)})
	if c.holding(); c.err != nil {
		c.err = errors.Join(errNeverHeld, c.err)
	} else {
		f(c)
	}
	// If no server hears that the sessions end, wait until they have expired.
	if left := c.close(); left != nil {
		d.say("closing: %.300v", left)
		c.err = errors.Join(c.err, peers.Pause(ctx, d.timeout+2*d.tick))
	}
	return c.err
}

// spread returns a whole number of intervals in which that many sessions can start, at no
// more than arrivals per second. So their probes are spread over the interval.
func (d *director) spread(sessions int) time.Duration {
	each := float64(arrivals) * d.interval().Seconds()
	return d.interval() * time.Duration(math.Ceil(float64(sessions)/each))
}

// folder returns a folder that was not used before.
func (d *director) folder() string {
	d.folders++
	return fmt.Sprintf("/crowd/%d", d.folders)
}

func (d *director) stages(ctx context.Context, r *Results) error {
	return d.with(ctx, d.sessions, d.processes, func(c *crowd) {
		r.Processes = len(c.processes)
		d.holdNow(c, r)
		c.do(func() (err error) {
			r.Memory, err = sum(c, (*peers.Process).Memory)
			r.Memory /= int64(d.sessions)
			return err
		})
		d.restart(c, r, "leader killed, back when every session is served", d.leader(c), true)
		var followers []int
		c.do(func() (err error) {
			followers, err = d.e.Followers(ctx)
			return err
		})
		for i, f := range followers {
			d.restart(c, r, fmt.Sprintf("rolling restart: follower %d", i+1), f, false)
		}
		d.restart(c, r, "rolling restart: leader", d.leader(c), false)
		d.storms(c, r)
	})
}

func (d *director) leader(c *crowd) (leader int) {
	c.do(func() (err error) {
		leader, err = d.e.Leader(c.ctx)
		return err
	})
	return leader
}

// holdNow measures the crowd while it holds, and adds the result to r.
func (d *director) holdNow(c *crowd, r *Results) {
	d.say("holding for %v", d.window)
	r.Holds = append(r.Holds, d.hold(c, d.window))
}

// hold measures a crowd while every session holds. It first waits for one interval, until
// the probes have begun.
func (d *director) hold(c *crowd, window time.Duration) (h Hold) {
	c.rest(d.interval())
	h.Leader = d.leader(c)
	began, start := c.tell(order{Verb: verbMark}), time.Now()
	before := d.used(c)
	c.rest(window)
	after, seconds := d.used(c), time.Since(start).Seconds()
	ended := c.tell(order{Verb: verbTimes})
	if c.err != nil {
		return h
	}
	h.Sessions, h.Seconds, h.Asked = c.sessions, seconds, d.asked(c.sessions)
	h.Writes = float64(ended.Writes) / time.Since(start).Seconds()
	h.Lost, h.Gap = ended.Lost-began.Lost, millis(ended.Gap)
	if len(ended.Times) > 0 {
		h.P50, h.P99 = figures.Percentile(ended.Times, 0.50)/1e3, figures.Percentile(ended.Times, 0.99)/1e3
	}
	for i := range servers {
		h.Servers = append(h.Servers, (after[i]-before[i]).Seconds()/seconds)
	}
	h.Clients = (after[servers] - before[servers]).Seconds() / seconds
	return h
}

// asked returns how many writes per second that many sessions request.
func (d *director) asked(sessions int) float64 { return float64(sessions) / d.interval().Seconds() }

// used returns the CPU time so far of each server and, last, of the crowd.
func (d *director) used(c *crowd) (all []time.Duration) {
	for i := range servers {
		c.do(func() error {
			used, err := peers.ProcessorTime(d.e.Pid(i))
			all = append(all, used)
			return err
		})
	}
	c.do(func() error {
		used, err := sum(c, (*peers.Process).ProcessorTime)
		all = append(all, used)
		return err
	})
	return all
}

func millis(nanos int64) float64 { return float64(nanos) / 1e6 }

// restart kills a server and starts it again, either at once or, if late is set, once
// every session has had an answer without it.
func (d *director) restart(c *crowd, r *Results, name string, server int, late bool) {
	d.say("%s", name)
	before, start := c.tell(order{Verb: verbLook}), time.Now()
	c.do(func() error { return d.e.Kill(server) })
	c.tell(order{Verb: verbMark}) // the server answers nothing from now on; a gap that has begun continues
	back := func() {
		c.until("every session is served", func(r report) bool { return r.Back == c.sessions && r.Holding == c.sessions })
	}
	if late {
		back()
	}
	c.do(func() error { return d.e.Restart(server) })
	c.do(func() error { return d.e.Wait(c.ctx) })
	if !late {
		back()
	}
	f := Fault{What: name, Outage: millis(time.Since(start).Nanoseconds())}
	c.rest(2 * d.interval()) // for losses that are not reported yet
	ended := c.holding()
	f.First, f.Last = millis(ended.FirstBack-start.UnixNano()), millis(ended.LastBack-start.UnixNano())
	f.Gap, f.Lost = millis(ended.Gap), ended.Lost-before.Lost
	r.Faults = append(r.Faults, f)
}
