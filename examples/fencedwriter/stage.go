package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// accountLock is the lock of the writers.
const accountLock = "/zkgrant/fencedwriter/account"

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	return program.New("fencedwriter", stderr).Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk)
	})
}

// run plays the scene. It returns an error if the store that compares tokens ends up with
// a wrong balance.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("two writers, two stores, one lock, on %v\n", zk)
	connection := zk.NewGate()
	anns, err := coordinator.Connect(ctx, zk.Servers, append(zk.Options(), coordinator.WithDialer(connection.DialContext))...)
	if err != nil {
		return err
	}
	defer end(anns, say)
	defer connection.Open() // the release needs a connection
	bobs, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	defer end(bobs, say)

	fenced := &store{name: "the store that compares tokens", fenced: true}
	trusting := &store{name: "the store that does not"}
	ann, bob := &writer{name: "ann", amount: 20, say: say}, &writer{name: "bob", amount: 50, say: say}

	lock, err := anns.Mutex(accountLock).Hold(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := ann.read(lock.Grant(), fenced, trusting); err != nil {
		return err
	}
	say("ann  is halted before it writes")
	connection.Shut()

	if err := bobs.Mutex(accountLock).Do(ctx, func(_ context.Context, grant events.Grant) error {
		return errors.Join(bob.read(grant, fenced, trusting), bob.write(fenced), bob.write(trusting))
	}); err != nil {
		return err
	}

	say("ann  wakes up (is its lock valid? %t) and writes all the same", lock.Valid())
	connection.Open()
	if err := ann.write(trusting); err != nil {
		return err
	}
	if err := ann.write(fenced); !errors.As(err, new(*staleError)) {
		return errors.Join(errors.New("a past holder's write was not refused"), err)
	}
	// A refused writer starts over: it reads again, under a new Grant.
	if err := anns.Mutex(accountLock).Do(ctx, func(_ context.Context, grant events.Grant) error {
		return errors.Join(ann.read(grant, fenced), ann.write(fenced))
	}); err != nil {
		return err
	}
	say("\n20 and 50 were paid in; %s has %d, %s has %d", fenced.name, fenced.balance, trusting.name, trusting.balance)
	if fenced.balance != ann.amount+bob.amount {
		return errors.New("something was lost in spite of the tokens")
	}
	return nil
}

// end closes a coordinator. If no server is reachable, the session times out.
func end(c *coordinator.Coordinator, say func(string, ...any)) {
	if err := c.Close(); err != nil {
		say("%v", err)
	}
}

// writer adds an amount to the balance.
type writer struct {
	name   string
	amount int
	say    func(string, ...any)

	token int64
	seen  map[*store]int // balances
}

// read reads the balances, and remembers them with the Grant's token.
func (w *writer) read(grant events.Grant, stores ...*store) error {
	w.token, w.seen = grant.Token, map[*store]int{}
	for _, s := range stores {
		balance, err := s.read(w.token)
		if err != nil {
			return err
		}
		w.seen[s] = balance
		w.say("%s  holds the lock, token %#x; %s has %d", w.name, w.token, s.name, balance)
	}
	return nil
}

// write stores the balance that was read plus the amount, whatever has happened since.
func (w *writer) write(s *store) error {
	balance := w.seen[s] + w.amount
	err := s.write(w.token, balance)
	if err != nil {
		w.say("%s  writes %d; %s refuses: %v", w.name, balance, s.name, err)
	} else {
		w.say("%s  writes %d; %s takes it", w.name, balance, s.name)
	}
	return err
}
