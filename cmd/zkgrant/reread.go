package main

import (
	"context"
	"sync"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// reread holds values from files that are read again at each dial, because certificates
// and passwords are renewed while the program runs.
type reread[T any] struct {
	read func() (T, error)
	*console

	mu    sync.Mutex
	last  T
	wrong string // the error that was reported; empty while the files are good
}

// readAgain reads the files for the first time and returns an error if that fails.
func readAgain[T any](c *console, read func() (T, error)) (*reread[T], error) {
	first, err := read()
	return &reread[T]{read: read, console: c, last: first}, err
}

// now returns the current values. If the files cannot be read, or are invalid because
// they are just being written, it returns the previous values, and reports the error
// once.
func (a *reread[T]) now() T {
	a.mu.Lock()
	defer a.mu.Unlock()
	said, err := a.read()
	switch {
	case err == nil:
		a.last, a.wrong = said, ""
	case err.Error() != a.wrong:
		a.wrong = err.Error()
		a.say(report{Event: "warned", Error: a.wrong, loud: true}, "%v; using what was read before", err)
	}
	return a.last
}

// mechanismAgain is a mechanism that reads its file again for each exchange.
type mechanismAgain struct {
	sasl.Mechanism // as first read, for the name

	file *reread[sasl.Mechanism]
}

// Start begins an exchange.
func (m mechanismAgain) Start(ctx context.Context, server string) (sasl.Exchange, error) {
	return m.file.now().Start(ctx, server)
}
