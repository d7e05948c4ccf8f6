package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// player answers the questions for one of the Go libraries, in a contestant's process.
type player struct {
	key, addr string
	meter     meter
	chain     *chain

	sessions []client
	use      use
	queue    *queue

	kept             []mutex // locks kept by hold
	heap, goroutines int64   // in use before hold
}

// play answers the questions on the input until it ends.
func play(ctx context.Context, key, addr string, input io.Reader, output io.Writer) error {
	p := &player{key: key, addr: addr, chain: &chain{last: map[string]string{}}, use: use{kind: kindMutex}}
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		values, err := p.answer(ctx, lines.Text())
		if _, err := fmt.Fprintln(output, formatAnswer(values, err)); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), p.close())
}

func (p *player) answer(ctx context.Context, line string) ([]int64, error) {
	q, err := parseQuestion(line)
	if err != nil {
		return nil, err
	}
	switch q.verb {
	case askOpen:
		return nil, p.open(ctx, q.n)
	case askClose:
		return nil, p.close()
	case askBytes:
		return []int64{p.meter.bytes.Load()}, nil
	case askCalls:
		return []int64{p.meter.reads.Load(), p.meter.writes.Load(), allocated()}, nil
	}
	if len(p.sessions) == 0 {
		return nil, errors.New("no session is open")
	}
	switch q.verb {
	case askUse:
		p.use = use{q.path, q.n}
		return nil, nil
	case askCycle:
		return p.cycle(ctx, q.path, q.n, false)
	case askAwaited:
		return p.cycle(ctx, q.path, q.n, true)
	case askMany:
		return p.many(ctx, q.n, q.also, func(i int) (mutex, error) { return p.sessions[0].lock(q.path + "-" + strconv.Itoa(i)) })
	case askManyAwaited:
		return p.many(ctx, q.n, q.also, func(i int) (mutex, error) {
			m, err := p.sessions[0].lock(q.path + "-" + strconv.Itoa(i))
			if last, async := m.(awaiter); async {
				return &awaited{mutex: m, awaiter: last}, err
			}
			return nil, cmp.Or(err, errNotOffered)
		})
	case askCrowd:
		return p.many(ctx, q.n, q.also, func(int) (mutex, error) { return p.sessions[0].contender(q.path) })
	case askTurns:
		return p.turns(ctx, q.path, q.n, q.also)
	case askWalk:
		return p.walk(ctx, q.path, q.n)
	case askArrive:
		return p.arrive(ctx, q.path, q.n, q.also)
	case askFill:
		return nil, p.fill(ctx, q.path, q.n)
	case askDrain:
		return p.drain(ctx, q.n)
	case askHold:
		return p.hold(ctx, q.path, q.n)
	case askHeld:
		return p.held()
	case askExpire:
		return p.expire(ctx, q.path, q.n)
	default:
		return nil, errNotOffered
	}
}

func (p *player) open(ctx context.Context, n int) error {
	for range n {
		c, err := openGo(ctx, p.key, p.addr, &p.meter, p.chain)
		if err != nil {
			return err
		}
		p.sessions = append(p.sessions, c)
	}
	return nil
}

func (p *player) close() (err error) {
	if p.queue != nil {
		p.queue.stop()
		p.queue = nil
	}
	for _, c := range p.sessions {
		err = errors.Join(err, c.close())
	}
	p.sessions, p.kept, p.chain.last, p.use = nil, nil, make(map[string]string), use{kind: kindMutex}
	return err
}

// lock returns a lock of the kind in use: for a loop or, if shared is set, one that may
// share its path with others.
func (p *player) lock(c client, path string, shared bool) (mutex, error) {
	if p.use.kind != kindMutex {
		if various, ok := c.(versatile); ok {
			return various.other(p.use, path)
		}
		return nil, errNotOffered
	}
	if shared {
		return c.contender(path)
	}
	return c.lock(path)
}

func (p *player) cycle(ctx context.Context, path string, n int, awaited bool) ([]int64, error) {
	m, err := p.lock(p.sessions[0], path, false)
	if err != nil {
		return nil, err
	}
	last, async := m.(awaiter)
	if awaited && !async {
		return nil, errNotOffered
	}
	took := make([]int64, 0, n)
	for range n {
		start := time.Now()
		if err := m.acquire(ctx); err != nil {
			return nil, err
		}
		if err := m.release(); err != nil {
			return nil, err
		}
		if awaited {
			if err := last.await(ctx); err != nil {
				return nil, err
			}
		}
		took = append(took, time.Since(start).Nanoseconds())
	}
	return took, settle(ctx, m)
}

// awaited is a mutex that waits until its release has finished before the next acquire.
type awaited struct {
	mutex
	awaiter

	again bool
}

func (a *awaited) acquire(ctx context.Context) error {
	if a.again {
		if err := a.await(ctx); err != nil {
			return err
		}
	}
	a.again = true
	return a.mutex.acquire(ctx)
}

// settle waits until the mutex's last release has finished.
func settle(ctx context.Context, m mutex) error {
	if last, async := m.(awaiter); async {
		return last.await(ctx)
	}
	return nil
}

// many runs cycles in many goroutines at once, each with its own mutex. The first cycle
// of each may create a directory, and is not counted.
func (p *player) many(ctx context.Context, goroutines, cycles int, lock func(i int) (mutex, error)) ([]int64, error) {
	var warm sync.WaitGroup
	warm.Add(goroutines)
	begin, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- peers.Together(goroutines, func(i int) error {
			m, err := lock(i)
			if err == nil {
				err = loop(ctx, m, 1)
			}
			warm.Done()
			<-begin
			if err == nil {
				err = loop(ctx, m, cycles)
			}
			return err
		})
	}()
	warm.Wait()
	start := time.Now()
	close(begin)
	err := <-done
	return []int64{time.Since(start).Nanoseconds()}, err
}

// loop runs cycles, and waits until the last release has finished.
func loop(ctx context.Context, m mutex, cycles int) error {
	if err := repeat(ctx, m, cycles); err != nil {
		return err
	}
	return settle(ctx, m)
}

// repeat runs cycles. The last release may not have finished.
func repeat(ctx context.Context, m mutex, cycles int) error {
	for range cycles {
		if err := m.acquire(ctx); err != nil {
			return err
		}
		if err := m.release(); err != nil {
			return err
		}
	}
	return nil
}

// hold takes locks, each at its own path, and keeps them.
func (p *player) hold(ctx context.Context, path string, n int) ([]int64, error) {
	p.heap, p.goroutines = inUse()
	var err error
	if p.kept, err = p.take(ctx, path, n); err != nil {
		return nil, err
	}
	return p.held()
}

// held measures the memory of the kept locks.
func (p *player) held() ([]int64, error) {
	if p.kept == nil {
		return nil, errNotOffered
	}
	heap, goroutines := inUse()
	return []int64{heap - p.heap, goroutines - p.goroutines}, nil
}

// take acquires n locks, in several goroutines.
func (p *player) take(ctx context.Context, path string, n int) ([]mutex, error) {
	const hands = 128
	kept := make([]mutex, n)
	return kept, peers.Together(hands, func(hand int) error {
		for i := hand; i < n; i += hands {
			m, err := p.sessions[0].lock(path + "-" + strconv.Itoa(i))
			if err == nil {
				err = m.acquire(ctx)
			}
			if err != nil {
				return err
			}
			if ours, is := m.(*ourMutex); is { // creates the channels that a holder would use in a select
				ours.current.Lost()
				ours.current.Done()
			}
			kept[i] = m
		}
		return nil
	})
}

// allocated returns the number of objects allocated so far.
func allocated() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Mallocs) //nolint:gosec // it stays far below that
}

// inUse returns the heap memory in use, and the number of goroutines.
func inUse() (heap, goroutines int64) {
	var stats runtime.MemStats
	// The second collection frees objects with finalizers, and what pools keep for one
	// more cycle.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), int64(runtime.NumGoroutine())
}
