package main

import (
	"context"
	"sync"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// reread is what files say that are read again at each dial: certificates and passwords
// are renewed while the program runs.
type reread[T any] struct {
	read func() (T, error)
	*console

	mu    sync.Mutex
	last  T
	wrong string // the error that was reported; empty: the files are good
}

// readAgain reads the files for the first time, when an error counts.
func readAgain[T any](c *console, read func() (T, error)) (*reread[T], error) {
	first, err := read()
	return &reread[T]{read: read, console: c, last: first}, err
}

// now returns what the files say. If they cannot be read, or make no sense, as while they
// are being written, it returns what they said last, and reports the error once.
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

// mechanismAgain is a mechanism whose file is read again for each exchange.
type mechanismAgain struct {
	sasl.Mechanism // as it was read first, for the name

	file *reread[sasl.Mechanism]
}

// Start begins an exchange.
func (m mechanismAgain) Start(ctx context.Context, server string) (sasl.Exchange, error) {
	return m.file.now().Start(ctx, server)
}
