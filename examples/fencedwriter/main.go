// Command fencedwriter shows why a lock is not enough where the state is elsewhere,
// and what is: a store that refuses old tokens.
//
// Ann reads a balance under the lock, and is about to write a new one. Then ann is
// halted, and hears of nothing. Its session ends, bob is granted the lock, and writes.
// Ann wakes up, and writes what it had in mind. It has not looked at its lock again;
// and had it looked, it might have been halted right behind that look. No lock of any
// kind can hold this write back. The store can: it has seen a greater token than the
// one that comes with the write.
//
//	go run ./examples/fencedwriter                     on a server inside the program
//	go run ./examples/fencedwriter -zk host:2181,...   on a real one, chroot and all
//
// The store is below, with the SQL for PostgreSQL. stage.go plays the scene on two
// stores, one that compares tokens and one that does not. It takes as long as the
// servers take to end a session, -timeout and a little more. State that is kept in
// ZooKeeper itself needs none of this, but Acquisition.Txn.
package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// store keeps one balance, for writers that each name the fencing token of their
// Grant. It stands for a database. There the same is one statement, and whether it
// has changed a row is the answer:
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
// With no row changed, somebody with a greater token has been there, and the writer
// is a past holder: roll back. In a transaction of several statements this one comes
// first, since it locks the row: until the end of the transaction no greater token
// can come in between. Where a write touches many rows, let the lock have a row of
// its own, in a table fence(path text PRIMARY KEY, token bigint NOT NULL), and begin
// with
//
//	UPDATE fence SET token = $2 WHERE path = $1 AND token <= $2;
//
// What a holder is to rely on when it reads, it reads behind the same statement in the
// same transaction: else a past holder's write may still come in after the reading and
// before the first write with the new token.
//
// A token is a bigint: it is positive and fits 64 bits with a sign.
type store struct {
	name   string
	fenced bool // tokens are compared

	mu      sync.Mutex
	balance int
	fence   int64 // the greatest token seen
}

// read returns the balance to the holder with the token, and from then on refuses
// older ones.
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

// admit compares the token with what the store has seen; s.mu is held.
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

// staleError says that the writer's lock is not its own any more.
type staleError struct{ token, seen int64 }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %#x is old: %#x has been here", e.token, e.seen)
}
