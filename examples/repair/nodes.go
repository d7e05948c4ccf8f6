package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session"
)

// Where it all is. The lock's record, while somebody holds it, stands beside the lock.
const (
	root     = "/zkgrant/repair"
	pairLock = root + "/lock"
	left     = root + "/left"
	right    = root + "/right"
	ready    = root + "/ready" // is there unless the two are being changed
)

// pair is how the two nodes are read: with a client of the program's own, for locks do not read.
type pair struct {
	conn   *zk.Conn
	chroot string
}

// open connects, until ctx ends.
func open(ctx context.Context, z *program.ZooKeeper) (*pair, func(), error) {
	servers, err := session.ParseConnectString(z.Servers)
	if err != nil {
		return nil, nil, err
	}
	conn, news, err := zk.Connect(servers.Hosts, z.Timeout, zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return z.NewGate().DialContext(ctx, network, address)
		}))
	if err != nil {
		return nil, nil, err
	}
	return &pair{conn, servers.Chroot}, func() {
		conn.Close()
		for range news { // closed when the client's goroutines have ended
		}
	}, nil
}

// state is what was read.
type state struct {
	left, right string
	ready       bool
}

// whole tells whether both are of one version.
func (s state) whole() bool { return s.left == s.right }

// read reads what everybody has written who held the lock before. The server asked may be behind; after a Sync it knows
// what the others know.
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

// must makes one step of a change, as often as it takes until it is done: with half of a change done there is no way back, and a
// function that returns has released. Only the loss of the lock ends that, which is a crash to the next one. A
// step that was made already when its answer was lost is refused with an error that says so. Each is made only
// if the lock is still held (see Acquisition.Txn).
func must(held context.Context, lock *coordinator.Acquisition, step any, made error) error {
	for {
		_, err := lock.Txn(held, step)
		var lost *coordinator.LostError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &lost):
			return err
		case made != nil && errors.Is(err, made):
			return nil
		case !errors.Is(err, coordinator.ErrOutcomeUnknown):
			return err
		case held.Err() != nil:
			return context.Cause(held)
		}
	}
}

func set(node, text string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: node, Data: []byte(text), Version: -1}
}

func create(node string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
}

func remove(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }
