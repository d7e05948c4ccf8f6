package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session"
)

// nodesLeft counts the contenders' nodes as an outsider sees them, with the plain
// ZooKeeper client. The lock's directory itself is a container: the server removes
// it by and by. Whoever could not say goodbye, because no server could be reached,
// leaves a node that goes with its session: so long it waits for the last to go.
func nodesLeft(ctx context.Context, opt options) (int, error) {
	servers, err := session.ParseConnectString(opt.zk.Servers)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*opt.zk.Timeout)
	defer cancel()
	conn, news, err := zk.Connect(servers.Hosts, opt.zk.Timeout, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return 0, err
	}
	defer func() {
		conn.Close()
		for range news { // closed when the client's goroutines have ended
		}
	}()
	defer context.AfterFunc(ctx, conn.Close)() // the client's calls know no context

	for {
		n, err := countNodes(conn, servers.Chroot+lockPath)
		if err == nil && n == 0 {
			return 0, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			if err != nil {
				err = fmt.Errorf("could not count the nodes left: %w", err)
			}
			return n, err
		}
	}
}

// countNodes counts the children of a directory.
func countNodes(conn *zk.Conn, dir string) (int, error) {
	// The server asked may be behind; after a Sync it knows what the others know.
	if _, err := conn.Sync(dir); err != nil {
		return 0, err
	}
	names, _, err := conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	return len(names), err
}
