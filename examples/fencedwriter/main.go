// Command fencedwriter shows why a lock is not enough if the state is elsewhere, and what
// is enough: a store that refuses old tokens.
//
//  1. Ann reads a balance under the lock, and is about to write a new one.
//  2. Ann is halted, and hears of nothing.
//  3. Ann's session ends. Bob is granted the lock, and writes.
//  4. Ann goes on, and writes the balance that it had in mind.
//
// Ann did not look at its lock before that write. A look would not be enough: the halt
// might come right after the look. No lock of any kind can stop this write. The store
// can: it has seen a greater token than the write's.
//
//	go run ./examples/fencedwriter                     on a server inside the program
//	go run ./examples/fencedwriter -zk host:2181,...   on a real one, chroot and all
//
// The store is below, with the SQL for PostgreSQL. stage.go plays the scene on two
// stores, one that compares tokens and one that does not. It takes as long as the servers
// take to end a session: -timeout and a little more. State in ZooKeeper itself needs no
// store like this, only Acquisition.Txn.
package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// store keeps one balance, for writers that each give the fencing token of their Grant.
// It represents a database. There the same is one statement, and whether it has changed a
// row is the answer:
//
//	CREATE TABLE account (
//	    id      bigint PRIMARY KEY,
//	    balance bigint NOT NULL,
//	    fence   bigint NOT NULL DEFAULT 0
//	);
//
//	UPDATE account
//	   SET balance = $2, fence = $3
//	 WHERE id = $1 AND fence <= $3;
//
// If no row has changed, a holder with a greater token has written, and this writer is a
// past holder: roll back. In a transaction of several statements this statement comes
// first. It locks the row, so until the end of the transaction no greater token can come
// in between. If a write touches many rows, give the lock a row of its own, in a table
// fence(path text PRIMARY KEY, token bigint NOT NULL), and begin with
//
//	UPDATE fence SET token = $2 WHERE path = $1 AND token <= $2;
//
// If a holder relies on what it reads, it reads after the same statement, in the same
// transaction. Else a past holder's write may come after the read and before the first
// write with the new token.
//
// A token fits a bigint: it is positive, and no more than 63 bits.
type store struct {
	name   string
	fenced bool // it compares tokens

	mu      sync.Mutex
	balance int
	fence   int64 // the greatest token seen
}

// read returns the balance to the holder with the token. From then on the store refuses
// older tokens.
func (s *store) read(token int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(token); err != nil {
		return 0, err
	}
	return s.balance, nil
}

// write replaces the balance.
func (s *store) write(token int64, balance int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(token); err != nil {
		return err
	}
	s.balance = balance
	return nil
}

// admit compares the token with the greatest that the store has seen; s.mu is held.
func (s *store) admit(token int64) error {
	if !s.fenced {
		return nil
	}
	if token < s.fence {
		return &staleError{token: token, seen: s.fence}
	}
	s.fence = token
	return nil
}

// staleError says that the writer does not hold the lock any more.
type staleError struct{ token, seen int64 }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %#x is old: %#x has been here", e.token, e.seen)
}
