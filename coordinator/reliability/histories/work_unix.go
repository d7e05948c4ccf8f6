//go:build unix

package histories

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// The registers of the workloads. Each contains a set of numbers. To add a number, a
// worker reads the set, waits, and writes it back with the number added. The registers
// differ in what stops a late worker.
const (
	registerTrusting  = "in memory, trusting the Grant" // nothing stops it
	registerAsking    = "in memory, Valid asked first"  // a check of the lease
	registerComparing = "in memory, tokens compared"    // the keeper refuses a smaller fence than it has seen
	registerPlain     = "in ZooKeeper, plain"           // nothing stops it
	registerTxn       = "in ZooKeeper, Txn"             // the servers: Txn
)

func memoryRegisters() []string { return []string{registerTrusting, registerAsking, registerComparing} }

func nodeOf(register string) string {
	return "/registers/" + strings.NewReplacer(",", "", " ", "-").Replace(register)
}

// section is one stay in the critical section.
type section struct {
	Element int // the element that only this section adds
	fence
	Granted, Ended int64 // when the Grant was read, and when the lock was released, or Lost was read
	Writes         []written
	Ops            []operation
}

// written is the result of adding the element.
type written struct {
	Register string
	Sent     int64
	Accepted bool // acknowledged, so it must stay in the set
}

// worksite is where a child's worker works.
type worksite struct {
	*worker
	job     job
	up      *parent
	raw     *zk.Conn // its own session, which outlives the pauses
	tenure  *tenure
	section *section
}

// workJob lets the child's workers enter the critical section as often as the parent
// wants. They share a coordinator.
func workJob(ctx context.Context, c *coordinator.Coordinator, j job, up *parent) error {
	raw, err := rawClient(j.Servers, 20*j.Tick)
	if err != nil {
		return err
	}
	defer raw.Close()
	h := newHistory(0)
	h.halted = true
	var sites []*worksite
	for i := range j.Workers {
		one := &worker{
			number: j.Worker*j.Workers + i, coordinator: c, history: h, rest: j.Rest,
			random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		}
		sites = append(sites, &worksite{worker: one, job: j, up: up, raw: raw})
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	<-start(sites, func(w *worksite) {
		if err := w.work(working); err != nil {
			fail(err)
		}
	})
	if err = context.Cause(working); err == nil {
		_, err = up.ask(message{Kind: "home"})
	}
	return err
}

// work enters the critical section until the parent ends that.
func (w *worksite) work(ctx context.Context) error {
	for {
		answer, err := w.up.ask(message{Kind: "ready"})
		if err != nil || !answer.Accepted {
			return err
		}
		<-time.After(w.upTo(w.rest)) // a worker that was halted here continues with Acquire
		w.round++
		if err := w.enter(ctx); err != nil {
			return err
		}
	}
}

// enter acquires the lock, adds an element to each set, and reports the section to the
// parent.
func (w *worksite) enter(ctx context.Context) error {
	w.tenure = w.history.begin(w.number, w.round, w.job.Path)
	lock := w.handle(&w.tenure.op)(ctx)
	w.tenure.lock = lock
	grant, err := lock.Wait(ctx)
	if err != nil {
		return err
	}
	w.tenure.granted(grant)
	const most = 1_000_000 // rounds
	w.section = &section{Element: w.number*most + int(w.round), fence: fence{grant.Token, grant.Turn}, Granted: machineTime()}
	var lostAt atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-lock.Lost():
			lostAt.Store(machineTime())
		case <-lock.Done():
		}
	}()
	if _, err := w.up.ask(message{Kind: "granted", fence: w.section.fence}); err != nil {
		return err
	}
	if err := w.add(ctx, lock); err != nil {
		return err
	}
	w.section.Ended = machineTime()
	if lostAt.Load() != 0 {
		w.tenure.lost(events.Lost{})
	} else {
		w.tenure.release()
	}
	<-lock.Done()
	<-over
	if at := lostAt.Load(); at != 0 {
		w.section.Ended = min(at, w.section.Ended)
	}
	w.section.Ops = w.history.take()
	_, err = w.up.ask(message{Kind: "section", Section: w.section})
	return err
}

// add reads all sets, waits, and writes them back with the element added.
func (w *worksite) add(ctx context.Context, lock *coordinator.Acquisition) error {
	sets := map[string][]int{}
	for _, register := range memoryRegisters() {
		sent := w.history.now()
		answer, err := w.up.ask(message{Kind: "read", Register: register, fence: w.section.fence})
		if err != nil {
			return err
		}
		if register == registerComparing {
			w.tenure.wrote(kindWrite, sent, answer.Accepted) // a read also shows the fence
		}
		sets[register] = append(answer.Set, w.section.Element)
	}
	for _, register := range w.job.Nodes {
		if set, err := readNode(w.raw, nodeOf(register)); err == nil { // otherwise it is not written either
			sets[register] = append(set, w.section.Element)
		}
	}
	<-time.After(rand.N(w.job.Window)) // the worker thinks about what it has read

	for _, register := range memoryRegisters() {
		if register == registerAsking && !w.tenure.valid() {
			continue
		}
		sent := w.history.now()
		answer, err := w.up.ask(message{Kind: "write", Register: register, fence: w.section.fence, Set: sets[register]})
		if err != nil {
			return err
		}
		if register == registerComparing {
			w.tenure.wrote(kindWrite, sent, answer.Accepted)
		}
		w.section.Writes = append(w.section.Writes, written{register, sent, answer.Accepted})
	}
	for _, register := range w.job.Nodes {
		set, ok := sets[register]
		if !ok {
			continue
		}
		data, err := json.Marshal(set)
		if err != nil {
			return err
		}
		write := &zk.SetDataRequest{Path: nodeOf(register), Data: data, Version: -1}
		sent := w.history.now()
		if register == registerPlain {
			_, err = w.raw.Set(write.Path, write.Data, write.Version)
		} else {
			_, err = lock.Txn(ctx, write)
			w.tenure.wrote(kindTxn, sent, err == nil)
		}
		w.section.Writes = append(w.section.Writes, written{register, sent, err == nil}) // an unknown outcome counts as not acknowledged
	}
	return nil
}

func rawClient(servers string, timeout time.Duration) (*zk.Conn, error) {
	conn, news, err := zk.Connect(strings.Split(servers, ","), timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	go func() {
		for range news { // until the client is closed
		}
	}()
	return conn, nil
}

// readNode returns the current set in a node, or a later one. It syncs, because a
// follower may lag.
func readNode(conn *zk.Conn, path string) (set []int, err error) {
	if _, err := conn.Sync(path); err != nil {
		return nil, err
	}
	data, _, err := conn.Get(path)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(data, &set)
	return slices.Clip(set), err
}
