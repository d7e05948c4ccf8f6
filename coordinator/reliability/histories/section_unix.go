//go:build unix

package histories

import (
	"context"
	"encoding/json"
	"fmt"
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

// The registers of the workloads. Each holds a set of numbers; to add one a worker reads the set, waits, and writes it
// back with the number in it. They differ in what stops a late worker.
const (
	registerTrusting  = "in memory, trusting the Grant" // nothing stops it
	registerAsking    = "in memory, Valid asked first"  // a look at the lease
	registerComparing = "in memory, tokens compared"    // the keeper refuses a fence smaller than one it was shown
	registerPlain     = "in ZooKeeper, plain"           // nothing stops it
	registerTxn       = "in ZooKeeper, Txn"             // the servers: Txn
	// Nothing stops it, under the lock of the client library.
	registerStock = "in memory, lock of the ZooKeeper client, trusting it"
)

// nodeOf is the node of a register in ZooKeeper.
func nodeOf(register string) string {
	return "/registers/" + strings.NewReplacer(",", "", " ", "-").Replace(register)
}

// section is one stay in the critical section.
type section struct {
	Worker  int         `json:"worker"`
	Element int         `json:"element"` // what it adds
	Token   int64       `json:"token"`
	Turn    uint64      `json:"turn"`
	Granted int64       `json:"granted"` // when the Grant was read
	Ended   int64       `json:"ended"`   // when it gave the lock back, or read the Lost
	Writes  []written   `json:"writes"`
	Ops     []operation `json:"ops"`
}

func (s *section) fence() fence { return fence{s.Token, s.Turn} }

// element returns a number that no other section adds.
func element(worker, round int) int { return worker*1_000_000 + round }

// written is the result of adding the element.
type written struct {
	Register string `json:"register"`
	Sent     int64  `json:"sent"`
	Accepted bool   `json:"accepted"` // acknowledged: it is in the set from now on
}

// worksite is where a worker of a child works.
type worksite struct {
	*worker
	job     job
	up      *parent
	raw     *zk.Conn // a session of its own, which outlives the pauses
	tenure  *tenure
	section *section
}

// workJob has the child's workers enter the critical section as often as the parent likes. They share a coordinator.
func workJob(ctx context.Context, j job, up *parent) error {
	c, err := coordinator.Connect(ctx, j.Servers,
		coordinator.WithSessionTimeout(j.Timeout), coordinator.WithTickTime(j.Tick))
	if err != nil {
		return err
	}
	raw, err := rawClient(j.Servers, 20*j.Tick)
	if err != nil {
		return goHome(ctx, c, err)
	}
	defer raw.Close()
	h := newHaltedHistory()
	var sites []*worksite
	for i := range j.Workers {
		one := &worker{
			number: j.Worker*j.Workers + i, coordinator: c, history: h, rest: j.Rest, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
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
	return goHome(ctx, c, err)
}

// work enters the critical section until the parent ends it.
func (w *worksite) work(ctx context.Context) error {
	for {
		answer, err := w.up.ask(message{Kind: "ready"})
		if err != nil || !answer.Accepted {
			return err
		}
		<-time.After(w.upTo(w.rest)) // a worker that was halted here goes on with Acquire
		w.round++
		if err := w.enter(ctx); err != nil {
			return err
		}
	}
}

// enter takes the lock, adds an element to each set, and tells the parent about it.
func (w *worksite) enter(ctx context.Context) error {
	w.tenure = w.history.begin(w.number, w.round, w.job.Path)
	lock := w.handle(&w.tenure.op).Acquire(ctx)
	w.tenure.lock = lock
	grant, err := lock.Wait(ctx)
	if err != nil {
		return err
	}
	w.tenure.granted(grant)
	w.section = &section{
		Worker: w.number, Element: element(w.number, int(w.round)), Token: grant.Token, Turn: grant.Turn, Granted: machineTime(),
	}
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
	if _, err := w.up.ask(message{Kind: "granted", Token: grant.Token, Turn: grant.Turn}); err != nil {
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

// add reads all sets, waits, and writes them back with the element in them.
func (w *worksite) add(ctx context.Context, lock *coordinator.Acquisition) error {
	sets := map[string][]int{}
	for _, register := range []string{registerTrusting, registerAsking, registerComparing} {
		sent := w.history.now()
		answer, err := w.up.ask(message{Kind: "read", Register: register, Token: w.section.Token, Turn: w.section.Turn})
		if err != nil {
			return err
		}
		if register == registerComparing {
			w.tenure.wrote(kindWrite, sent, answer.Accepted) // a read shows the fence, too
		}
		sets[register] = append(answer.Set, w.section.Element)
	}
	for _, register := range w.job.Nodes {
		set, err := readNode(w.raw, nodeOf(register))
		if err != nil {
			continue // it is not written either
		}
		sets[register] = append(set, w.section.Element)
	}
	// The worker thinks about what it has read, and of nothing else.
	<-time.After(rand.N(w.job.Window))

	for _, register := range []string{registerTrusting, registerAsking, registerComparing} {
		if register == registerAsking && !w.tenure.valid() {
			continue
		}
		sent := w.history.now()
		answer, err := w.up.ask(message{
			Kind: "write", Register: register, Token: w.section.Token, Turn: w.section.Turn, Set: sets[register],
		})
		if err != nil {
			return err
		}
		if register == registerComparing {
			w.tenure.wrote(kindWrite, sent, answer.Accepted)
		}
		w.note(register, sent, answer.Accepted)
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
		switch register {
		case registerPlain:
			_, err = w.raw.Set(write.Path, write.Data, write.Version)
		case registerTxn:
			_, err = lock.Txn(ctx, write)
		}
		if register != registerPlain {
			w.tenure.wrote(kindTxn, sent, err == nil)
		}
		w.note(register, sent, err == nil)
	}
	return nil
}

// note adds the result of a write. An unknown outcome counts as not acknowledged.
func (w *worksite) note(register string, sent int64, accepted bool) {
	w.section.Writes = append(w.section.Writes, written{register, sent, accepted})
}

// stockJob is workJob with the lock of the client library, which has no token and reports no loss.
func stockJob(_ context.Context, j job, up *parent) error {
	conn, err := rawClient(j.Servers, j.Timeout)
	if err != nil {
		return err
	}
	asked := make(chan message)
	answers := make(chan message)
	go func() {
		ask := func(m message) message {
			asked <- m
			return <-answers
		}
		for round := 1; ask(message{Kind: "ready"}).Accepted; round++ {
			lock := zk.NewLock(conn, j.Path, zk.WorldACL(zk.PermAll))
			if err := lock.Lock(); err != nil {
				continue // its session has ended; the client has another one, or will have
			}
			s := &section{Worker: j.Worker, Element: element(j.Worker, round), Granted: machineTime()}
			ask(message{Kind: "granted"})
			set := ask(message{Kind: "read", Register: registerStock}).Set
			<-time.After(rand.N(j.Window))
			sent := machineTime()
			accepted := ask(message{Kind: "write", Register: registerStock, Set: append(set, s.Element)}).Accepted
			s.Writes = []written{{registerStock, sent, accepted}}
			s.Ended = machineTime()
			_ = lock.Unlock() // after a loss it fails, and there is nothing to be done about it
			ask(message{Kind: "section", Section: s})
		}
		ask(message{Kind: "home"})
	}()
	// Lock cannot be cancelled: when the parent hangs up, this process ends at once.
	for {
		select {
		case m := <-asked:
			if err := up.link.send(m); err != nil {
				return err
			}
		case m, ok := <-up.said:
			if !ok {
				conn.Close()
				return nil
			}
			answers <- m
		}
	}
}

// rawClient is a plain client.
func rawClient(servers string, timeout time.Duration) (*zk.Conn, error) {
	conn, news, err := zk.Connect(strings.Split(servers, ","), timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connecting a client that knows nothing of locks: %w", err)
	}
	go func() {
		for range news { // until the client is closed
		}
	}()
	return conn, nil
}

// readNode returns the set in a node, as it is now or later: a follower may be behind.
func readNode(conn *zk.Conn, path string) ([]int, error) {
	if _, err := conn.Sync(path); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	data, _, err := conn.Get(path)
	if err != nil {
		return nil, fmt.Errorf("reading a set: %w", err)
	}
	var set []int
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("reading a set: %w", err)
	}
	return slices.Clip(set), nil
}
