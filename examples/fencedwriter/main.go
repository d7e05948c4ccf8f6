// Command fencedwriter shows why a lock alone cannot protect state that is stored
// elsewhere, and what can: a store that refuses old tokens.
//
//  1. Ann reads a balance under the lock, and computes a new one.
//  2. Ann is paused before it writes.
//  3. Ann's session expires. Bob is granted the lock, and writes.
//  4. Ann resumes, and writes the balance from step 1.
//
// Checking the lock before that write would not be enough: the pause might come right
// after the check. No lock can stop this write. The store can, because it has seen a
// greater token.
//
//	go run ./examples/fencedwriter                     on a server inside the program
//	go run ./examples/fencedwriter -zk host:2181,...   on real servers
//
// The store is below, with the SQL for PostgreSQL. stage.go plays the scene on two
// stores, one that compares tokens and one that does not. That takes a little longer than
// -timeout, because a session has to expire. State in ZooKeeper itself does not need such
// a store: use Acquisition.Txn.
package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// store keeps one balance. Each access passes the fencing token of its Grant. In a
// database, a write is one statement, and the number of changed rows is the answer:
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
// past holder: roll back. In a transaction, run this statement first. It locks the row,
// so no greater token can get in before the transaction ends. If a write touches many
// rows, give the lock a row of its own, in a table fence(path text PRIMARY KEY, token
// bigint NOT NULL), and begin with
//
//	UPDATE fence SET token = $2 WHERE path = $1 AND token <= $2;
//
// If a holder relies on what it reads, it must run the same statement before the read, in
// the same transaction. Otherwise a past holder's write may land after the read and
// before the first write with the new token.
//
// A token fits a bigint: it is positive and has at most 63 bits.
type store struct {
	name   string
	fenced bool // it compares tokens

	mu      sync.Mutex
	balance int
	fence   int64 // the greatest token seen
}

// read returns the balance. From then on the store refuses tokens older than this one.
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

// admit refuses a token smaller than the greatest one seen so far. s.mu is held.
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

// staleError reports that the writer no longer holds the lock.
type staleError struct{ token, seen int64 }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %#x is old: %#x has been here", e.token, e.seen)
}
