package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("repair", stderr)
	p.For(20 * time.Second)
	writers := p.Flags.Int("writers", 2, "how many writers, which die now and then")
	readers := p.Flags.Int("readers", 3, "how many readers")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *writers, *readers)
	})
}

// tally counts changes and looks.
type tally struct {
	mu                                    sync.Mutex
	written, died, repaired, read, waited int
}

func (t *tally) add(what *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*what++
}

// brokenError says that a reader has seen two versions.
type brokenError struct{ found state }

func (e *brokenError) Error() string {
	return fmt.Sprintf("read %q and %q, ready %v", e.found.left, e.found.right, e.found.ready)
}

// run runs the writers and readers until ctx ends, each with its own session.
func run(ctx context.Context, out io.Writer, servers *program.ZooKeeper, writers, readers int) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("%d writers, %d readers, two nodes, on %v", writers, readers, servers)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	conn, chroot, closed, err := servers.Client() //nolint:contextcheck // it is closed behind whatever ctx ends
	if err != nil {
		return err
	}
	defer closed()
	nodes, count := &pair{conn, chroot}, &tally{}
	if err := servers.Process(ctx, nil, func(c *coordinator.Coordinator) error { return prepare(ctx, handle(c)) }); err != nil {
		return err
	}
	var crew sync.WaitGroup
	for i := range writers + readers {
		m := &mortal{
			writer:     &writer{name: fmt.Sprintf("writer %d", i+1), pair: nodes, tally: count, say: say},
			connection: servers.NewGate(),
		}
		m.halfway = m.die
		work, rest := m.change, 200*time.Millisecond
		if i >= writers {
			work, rest = (&reader{nodes, count}).look, 50*time.Millisecond
		}
		crew.Go(func() {
			if err := again(ctx, servers, m.connection, work, rest); err != nil {
				abort(err)
			}
		})
	}
	crew.Wait()
	say("%d times written, %d times read; died half-way %d times, repaired %d times, kept %d readers waiting",
		count.written, count.read, count.died, count.repaired, count.waited)
	return context.Cause(ctx)
}

func handle(c *coordinator.Coordinator) *coordinator.ReadWrite {
	return c.ReadWrite(pairLock, coordinator.DetectCrash())
}

// prepare makes the nodes, unless they exist.
func prepare(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Write().Do(ctx, func(ctx context.Context, _ events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		// In one transaction: all of them exist, or none.
		_, err := lock.Txn(ctx, create(left), create(right), create(ready))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

// pair reads the two nodes with the program's own client, as locks do not read.
type pair struct {
	conn   *zk.Conn
	chroot string
}

// state is what was read.
type state struct {
	left, right string
	ready       bool
}

// whole tells whether both are of one version.
func (s state) whole() bool { return s.left == s.right }

// read reads what all earlier holders have written. The server may be behind; after a Sync it knows what the others know.
func (p *pair) read() (s state, err error) {
	if _, err := p.conn.Sync(p.chroot + root); err != nil {
		return s, err
	}
	for _, node := range []struct {
		path string
		text *string
	}{{left, &s.left}, {right, &s.right}} {
		data, _, err := p.conn.Get(p.chroot + node.path)
		if err != nil {
			return s, err
		}
		*node.text = string(data)
	}
	s.ready, _, err = p.conn.Exists(p.chroot + ready)
	return s, err
}

// errDead is the panic of a writer.
var errDead = errors.New("dead")

// mortal is a writer that dies over every third change.
type mortal struct {
	*writer

	connection *program.Gate
	changes    int
}

// change makes one change, or is the end of a process.
func (m *mortal) change(ctx context.Context, lock *coordinator.ReadWrite) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errDead // a real process would end here
		}
	}()
	return m.writer.change(ctx, lock)
}

// die ends every third change half-way: by a panic, or by the end of the connection, after which no server hears of the writer.
func (m *mortal) die() {
	m.changes++
	if m.changes%3 != 0 {
		return
	}
	m.tally.add(&m.tally.died)
	m.say("%s  dies half-way", m.name)
	if m.changes%2 == 1 {
		panic(errDead)
	}
	m.connection.Shut()
}

// again runs a process until ctx ends, and starts another one when it has died.
func again(
	ctx context.Context, servers *program.ZooKeeper, connection *program.Gate, work func(context.Context, *coordinator.ReadWrite) error, rest time.Duration,
) error {
	for ctx.Err() == nil {
		var broken *brokenError // this error is reported before any other
		connection.Open()
		err := servers.Process(ctx, connection, func(c *coordinator.Coordinator) error {
			for ctx.Err() == nil {
				var lost *coordinator.LostError
				switch err := work(ctx, handle(c)); {
				case errors.As(err, &broken), errors.Is(err, errDead), errors.As(err, &lost):
					return nil
				case err != nil:
					return err
				}
				select {
				case <-time.After(rest):
				case <-ctx.Done():
				}
			}
			return nil
		})
		if broken != nil {
			return broken
		}
		if err != nil {
			return err
		}
	}
	return nil
}
