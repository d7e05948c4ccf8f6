// Command demo shows two locks and some shards under one network, in a browser: you cut a
// contender off, and see which contenders believe that they hold the lock.
//
//	go run ./examples/demo                     a server inside the program
//	go run ./examples/demo -zk host:2181,...   real servers
//	go run ./examples/demo -ensemble           three real servers with a leader to kill
//
// It prints the URL of a page on loopback. Each contender queues for a zkgrant mutex and
// for a naive lock, and owns its share of six shards, over the same network. A button
// cuts it off, pauses it, ends its sessions, makes it release the locks, or kills it.
// Each bar in the picture is what the contender itself believed at that time. Nothing is
// scripted.
//
// The naive lock is the stock recipe, as in go-zookeeper's zk.Lock: the lowest sequential
// node holds, and a holder works until its client reports that the session has expired. A
// client without a connection cannot know that. It does report the lost connection, but
// the recipe ignores the report, since the session may still be alive. With the checkbox
// on the page, it treats every disconnect as a loss, and the page counts how often it
// gave up the lock although the session survived.
//
// After a pause, a contender continues with its next step. Before each step, the zkgrant
// contender checks Valid, as the documentation advises. The naive one has nothing to
// check.
//
// The shards are shared as in Example_shards of package coordinator: a group for the
// locks of the shards, and Watch on a list of members. Kill or pause a member, and its
// shards move to the others.
//
// Limitations: A contender is part of this process, so a pause stops its work and its
// network, but not the timers of its library. With either lock, a step that has begun
// continues after a pause; fencing tokens guard against that.
//
// Ctrl-C ends it and leaves no session behind. model.go turns the contenders' reports
// into the picture. stage.go has the faults, granted.go the contender with a zkgrant
// mutex, naive.go and recipe.go the naive one, shards.go the shards, and web.go the page.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("demo", stderr)
	p.Timeout(4 * time.Second)
	listen := p.Flags.String("listen", "127.0.0.1:0", "the loopback `address` of the page")
	three := p.Flags.Bool("ensemble", false, "start three real servers, which needs Java and ZooKeeper on this machine")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		listener, err := listenOnLoopback(*listen)
		if err != nil {
			return err
		}
		where, closed, err := choose(ctx, zk, *three)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		err = run(ctx, stdout, listener, where)
		return errors.Join(err, closed())
	})
}

// listenOnLoopback refuses an address that other machines can reach, because the page has
// no access control.
func listenOnLoopback(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("-listen %s is not on loopback", address), listener.Close())
	}
	return listener, nil
}

// run starts the contenders and serves the page until ctx ends.
func run(ctx context.Context, out io.Writer, listener net.Listener, where *servers) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := newStage(where, []string{"ann", "bob", "cid"})
	page := serve(listener, s, fail)
	fmt.Fprintf(out, "\n  http://%s/\n\n  Open it and cut the holder off. On %s. Ctrl-C ends it.\n", listener.Addr(), where)
	err := s.play(ctx)
	return errors.Join(err, page.Close())
}
