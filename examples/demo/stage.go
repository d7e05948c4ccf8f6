package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// lockPath is the parent of the two locks and the shards.
const lockPath = "/zkgrant/demo"

// The two locks, and the shards.
const (
	naiveSide   = "naive"
	zkgrantSide = "zkgrant"
	shardsSide  = "shards"
)

// shards is the number of shards.
const shards = 6

// stage owns the contenders and causes the faults. Its methods may be called from any
// goroutine.
type stage struct {
	where *servers
	log   *recorder
	names []string

	careful atomic.Bool // naive contenders treat a disconnect as a loss

	mu     sync.Mutex
	actors map[string]*actor
	struck bool            // the servers are down
	ctx    context.Context // of the play
	fail   context.CancelCauseFunc
	crew   sync.WaitGroup
}

// actor is a contender for both locks and a share of the shards. A fault affects all of
// them at once.
type actor struct {
	bodies []*body
	cut    bool
	wake   chan struct{} // not nil while it is paused
	dead   bool
	end    context.CancelFunc // of its goroutines
}

func newStage(where *servers, names []string) *stage {
	s := &stage{
		where: where, names: names, actors: map[string]*actor{},
		log: newRecorder([]string{naiveSide, zkgrantSide}, names),
	}
	for _, name := range names {
		s.actors[name] = s.newActor(name)
	}
	return s
}

func (s *stage) newActor(name string) *actor {
	a := &actor{}
	for _, side := range []string{naiveSide, zkgrantSide, shardsSide} {
		b := &body{
			side: side, name: name, log: s.log, state: away, careful: &s.careful,
			pause: make(chan (<-chan struct{})), handOn: make(chan struct{}),
		}
		b.network = faultnet.New(b.shake.overhear(s.where.zk.NewGate().DialContext), nil)
		a.bodies = append(a.bodies, b)
	}
	return a
}

// play runs the contenders until ctx ends, and then returns nil, or until one of them
// fails.
func (s *stage) play(ctx context.Context) error {
	began := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.mu.Lock()
	s.ctx, s.fail = ctx, fail
	s.mu.Unlock()
	for _, name := range s.names {
		s.mu.Lock()
		s.enter(name) //nolint:contextcheck // until the end of the play, whoever lets it enter
		s.mu.Unlock()
		s.await(ctx, name) // so that both queues have the same order
	}
	<-ctx.Done()
	s.each(func(b *body) { b.network.Heal() }) // so that they can end their sessions
	s.crew.Wait()
	s.each(func(b *body) { b.network.Close() })
	if began.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// enter starts a contender, which runs until the play ends or it is killed. s.mu is held.
func (s *stage) enter(name string) {
	contend := map[string]func(context.Context, *servers, *body) error{
		naiveSide: contendNaively, zkgrantSide: contendWithGrants, shardsSide: shareShards,
	}
	a := s.actors[name]
	ctx, end := context.WithCancel(s.ctx)
	a.end = end
	for _, b := range a.bodies {
		s.crew.Go(func() {
			if err := contend[b.side](ctx, s.where, b); err != nil && !b.killed.Load() {
				s.fail(fmt.Errorf("%s of %s: %w", b.side, b.name, err))
			}
		})
	}
}

func (s *stage) each(f func(*body)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.actors {
		for _, b := range a.bodies {
			f(b)
		}
	}
}

// await waits until the contender is in both queues.
func (s *stage) await(ctx context.Context, name string) {
	for ctx.Err() == nil {
		there := true
		changed := s.log.look(func(p *picture) {
			for _, side := range p.Sides {
				there = there && side.lane(name).last().State != away
			}
		})
		if there {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// errRefused means that the fault is not possible now.
var errRefused = errors.New("not now")

// The faults.
const (
	doCut       = "cut"
	doCutHolder = "cut-holder"
	doHeal      = "heal"
	doHealAll   = "heal-all"
	doPause     = "pause"
	doWake      = "wake"
	doExpire    = "expire"
	doHandOn    = "hand-on"
	doKill      = "kill"
	doStart     = "start"
	doCareful   = "careful"
	doCareless  = "careless"
	doStrike    = "strike"
	doneStrike  = "struck" // not a fault, but the end of one
)

// do causes the fault for a contender, or for the servers. If that is not possible now,
// the error wraps errRefused.
func (s *stage) do(what, who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil {
		return fmt.Errorf("%w: the contenders are not there", errRefused)
	}
	switch what {
	case doStrike:
		return s.strike()
	case doCutHolder:
		return s.cutHolder()
	case doCareful, doCareless:
		if now := what == doCareful; s.careful.Swap(now) != now {
			s.log.mark("", what)
		}
		return nil
	case doHealAll:
		for _, name := range s.names {
			s.heal(name)
		}
		return nil
	}
	a := s.actors[who]
	if a == nil {
		return fmt.Errorf("%w: there is no contender %q", errRefused, who)
	}
	if a.dead && what != doStart {
		return fmt.Errorf("%w: %s was killed", errRefused, who)
	}
	switch what {
	case doKill:
		s.kill(who)
	case doStart:
		s.start(who)
	case doCut:
		s.cut(who)
	case doHeal:
		s.heal(who)
	case doPause:
		s.pause(who)
	case doWake:
		s.wake(who)
	case doExpire:
		return s.expire(who)
	case doHandOn:
		return s.handOn(who)
	default:
		return fmt.Errorf("%w: there is no %q", errRefused, what)
	}
	return nil
}

// cut delays all traffic between the contender and the servers. Neither side is notified.
func (s *stage) cut(who string) {
	a := s.actors[who]
	if a.cut {
		return
	}
	a.cut = true
	s.log.mark(who, doCut)
	a.connect()
}

// cutHolder cuts off every contender that believes that it holds one of the locks.
func (s *stage) cutHolder() error {
	var holders []string
	s.log.look(func(p *picture) {
		for _, side := range p.Sides {
			holders = append(holders, side.holders()...)
		}
	})
	holders = slices.DeleteFunc(holders, func(name string) bool { return s.actors[name].cut || s.actors[name].dead })
	if len(holders) == 0 {
		return fmt.Errorf("%w: no contender with a network holds a lock", errRefused)
	}
	for _, name := range holders {
		s.cut(name)
	}
	return nil
}

// heal delivers what was delayed.
func (s *stage) heal(who string) {
	a := s.actors[who]
	if !a.cut {
		return
	}
	a.cut = false
	s.log.mark(who, doHeal)
	a.connect()
}

// pause stops the contender and its network.
func (s *stage) pause(who string) {
	a := s.actors[who]
	if a.wake != nil {
		return
	}
	a.wake = make(chan struct{})
	s.log.mark(who, doPause)
	a.connect()
	for _, b := range a.bodies {
		select {
		case b.pause <- a.wake:
		case <-s.ctx.Done():
		}
	}
}

func (s *stage) wake(who string) {
	a := s.actors[who]
	if a.wake == nil {
		return
	}
	s.log.mark(who, doWake)
	close(a.wake)
	a.wake = nil
	a.connect()
}

// connect cuts or heals the contender's networks, depending on its state.
func (a *actor) connect() {
	for _, b := range a.bodies {
		if a.connected() {
			b.network.Heal()
		} else {
			b.network.Partition()
		}
	}
}

func (a *actor) connected() bool { return !a.cut && a.wake == nil }

// kill ends the contender as if its process had died: its connections close, and it
// releases nothing.
func (s *stage) kill(who string) {
	a := s.actors[who]
	a.dead, a.cut, a.wake = true, false, nil
	for _, b := range a.bodies {
		b.killed.Store(true)
		b.network.Close()
	}
	a.end()
	s.log.mark(who, doKill)
}

// start restarts a killed contender.
func (s *stage) start(who string) {
	if !s.actors[who].dead {
		return
	}
	s.actors[who] = s.newActor(who)
	s.log.mark(who, doStart)
	s.enter(who)
}

// expire ends all sessions of the contender. It notices as soon as it has a connection.
func (s *stage) expire(who string) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.where.zk.Timeout)
	defer cancel()
	a := s.actors[who]
	s.log.mark(who, doExpire)
	for _, b := range a.bodies {
		if err := b.shake.end(ctx, s.where); err != nil {
			return err
		}
		if a.connected() {
			b.network.Cut() // as a server does when it has expired a session
		}
	}
	return nil
}

// handOn makes the contender release the locks that it holds.
func (s *stage) handOn(who string) error {
	a := s.actors[who]
	if a.wake != nil {
		return fmt.Errorf("%w: %s stands still", errRefused, who)
	}
	s.log.mark(who, doHandOn)
	for _, b := range a.bodies {
		select {
		case b.handOn <- struct{}{}:
		case <-s.ctx.Done():
		}
	}
	return nil
}

// strike causes the servers' fault.
func (s *stage) strike() error {
	if s.where.strike == nil || s.struck {
		return fmt.Errorf("%w: the servers cannot be struck", errRefused)
	}
	s.struck = true
	s.log.mark("", doStrike)
	s.crew.Go(func() {
		if err := s.where.strike(s.ctx); err != nil && s.ctx.Err() == nil {
			s.fail(fmt.Errorf("striking the servers: %w", err))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.struck = false
		s.log.mark("", doneStrike)
	})
	return nil
}
