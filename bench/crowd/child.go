package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/coordinator"
)

// patience is how long carrying out an order may take.
const patience = time.Minute

// gate dials for a process, unless it is shut.
type gate struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn // all connections so far; closing one twice is harmless
}

var errShut = errors.New("the connection is cut")

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, errors.Join(errShut, conn.Close())
	}
	g.conns = append(g.conns, conn)
	return conn, nil
}

// set opens the gate, or shuts it and closes every connection.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	for _, conn := range g.conns {
		_ = conn.Close() // the client notices in any case
	}
	g.conns = nil
}

// child is a process that runs part of the crowd.
type child struct {
	gate     gate
	first    int // the number of its first session
	of       int // the number of sessions in all processes
	sessions []*session
	hand     chan struct{} // closed by verbHand; nil without a wish
}

// join is the main function of a child process. It carries out the orders on the input
// until the input ends.
func join(ctx context.Context, input io.Reader, output io.Writer) (err error) {
	ctx, leave := context.WithCancel(ctx)
	c := new(child)
	var living sync.WaitGroup
	defer living.Wait()
	defer func() { err = errors.Join(err, c.close()) }()
	defer leave()
	answers := json.NewEncoder(output) // one per line
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		var o order
		var r report
		err := json.Unmarshal(lines.Bytes(), &o)
		if err == nil {
			err = c.follow(ctx, o, &living)
		}
		if err != nil {
			r.Err = err.Error()
		} else {
			r = c.report(o.Verb)
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c *child) follow(ctx context.Context, o order, living *sync.WaitGroup) error {
	switch o.Verb {
	case verbOpen:
		return c.open(ctx, o.Opening, living)
	case verbHold:
		if c.hand != nil {
			return errors.New("the sessions have a lock already")
		}
		c.hand = make(chan struct{})
		for i, s := range c.sessions {
			w := wish{path: o.Path, hand: c.hand, after: o.Spread * time.Duration(c.first+i) / time.Duration(c.of)}
			if !o.Shared {
				w.path = lockPath(o.Path, c.first+i)
			}
			s.wishes <- w
		}
	case verbHand:
		if c.hand == nil {
			return errors.New("no session has a lock")
		}
		close(c.hand)
		c.hand = nil
	case verbMark:
		now := time.Now()
		for _, s := range c.sessions {
			s.begin(now)
		}
	case verbCut, verbHeal:
		c.gate.set(o.Verb == verbCut)
	case verbLook, verbTimes, verbFates:
	default:
		return fmt.Errorf("no such order: %q", o.Verb)
	}
	return nil
}

func lockPath(folder string, session int) string { return fmt.Sprintf("%s/%d", folder, session) }

// open connects the sessions one after another. All processes do so at the same time.
func (c *child) open(ctx context.Context, o opening, living *sync.WaitGroup) error {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.first, c.of = o.First, o.Of
	for range o.N {
		// A wish waits in the channel while the session is still releasing the lock of
		// the previous wish.
		s := &session{wishes: make(chan wish, 1), mark: time.Now(), fates: make(map[string]int64)}
		options := []coordinator.Option{
			coordinator.WithSessionTimeout(o.Timeout), coordinator.WithTickTime(o.Tick), coordinator.WithDialer(c.gate.dial),
			coordinator.WithHooks(s),
		}
		var err error
		if s.c, err = coordinator.Connect(patient, o.Servers, options...); err != nil {
			return err
		}
		c.sessions = append(c.sessions, s)
		living.Go(func() { s.live(ctx) })
	}
	return nil
}

func (c *child) report(with verb) (r report) {
	for _, s := range c.sessions {
		r.add(s.report(with))
	}
	return r
}

func (c *child) close() error {
	return peers.Together(len(c.sessions), func(i int) error { return c.sessions[i].c.Close() })
}
