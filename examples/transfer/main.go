// Command transfer moves money between accounts. Each account has its own lock, and a transfer holds the locks of both accounts or none.
//
// Two callers that take one lock after the other, in opposite orders, wait for each other. Here one transaction asks for both, so no
// order has to be agreed on. An account is a node with a balance in it. A transfer is one transaction on both accounts, which the
// servers execute only while the nodes of both locks exist. So a teller that was halted, or whose session has ended without its
// knowing, changes nothing.
//
//	go run ./examples/transfer                     on a server inside the program
//	go run ./examples/transfer -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/transfer -for 0              until Ctrl-C
//
// stage.go has what is not to be copied: tellers with a session each, which move money in all directions at once. In the end the
// accounts are added up.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

const (
	// lockRoot is the parent of the accounts' locks, and accountRoot of the accounts.
	lockRoot    = "/zkgrant/transfer/locks"
	accountRoot = "/zkgrant/transfer/accounts"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// errNoFunds says that the account has less than the amount.
var errNoFunds = errors.New("not enough money")

// bank moves money between accounts.
type bank struct {
	c     *coordinator.Coordinator
	reads *zk.Conn // reading needs no lock's session
	root  string   // what the coordinator's paths are relative to
}

// transfer moves an amount from one account to another, and waits for both locks until ctx ends. An error that is
// coordinator.ErrOutcomeUnknown leaves open whether the money was moved. Any other error means that it was not.
func (b *bank) transfer(ctx context.Context, from, to string, amount int) error {
	both := b.c.Multi(b.c.Mutex(path.Join(lockRoot, from)), b.c.Mutex(path.Join(lockRoot, to)))
	return both.Do(ctx, func(ctx context.Context, _ events.Grant) error {
		source, err := b.balance(from)
		if err != nil {
			return err
		}
		target, err := b.balance(to)
		if err != nil {
			return err
		}
		if source.amount < amount {
			return errNoFunds
		}
		held, _ := coordinator.FromContext(ctx)
		// Both or none, and only while the nodes of both locks exist. The versions keep out a writer without a lock, and what was read from a
		// server that lags behind.
		_, err = held.Txn(ctx, source.set(source.amount-amount), target.set(target.amount+amount))
		return err
	})
}

// account is an account as it was read.
type account struct {
	path    string
	amount  int
	version int32
}

func (b *bank) balance(name string) (account, error) {
	a := account{path: path.Join(accountRoot, name)}
	data, stat, err := b.reads.Get(b.root + a.path)
	if err != nil {
		return a, fmt.Errorf("account %s: %w", name, err)
	}
	a.version = stat.Version
	if a.amount, err = strconv.Atoi(string(data)); err != nil {
		return a, fmt.Errorf("account %s: %w", name, err)
	}
	return a, nil
}

// set is the operation that changes the account from what was read.
func (a account) set(amount int) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: a.path, Data: []byte(strconv.Itoa(amount)), Version: a.version}
}
