package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"path"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session"
)

// client is a plain ZooKeeper client, with which the accounts are made and read.
type client struct {
	*zk.Conn
	news <-chan zk.Event
}

// dial connects one, and returns what the coordinators' paths are relative to.
func dial(servers *program.ZooKeeper) (*client, string, error) {
	parsed, err := session.ParseConnectString(servers.Servers)
	if err != nil {
		return nil, "", err
	}
	gate := servers.NewGate()
	conn, news, err := zk.Connect(parsed.Hosts, servers.Timeout, zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return gate.DialContext(ctx, network, address)
		}))
	return &client{conn, news}, parsed.Chroot, err
}

func (c *client) close() {
	c.Close()
	for range c.news { // ends when the client's goroutines have
	}
}

// open makes the accounts, or sets them back to what they begin with.
func open(c *zk.Conn, root string) error {
	for _, name := range names {
		node, amount := root+path.Join(accountRoot, name), []byte(strconv.Itoa(start))
		if err := makeAll(c, path.Dir(node)); err != nil {
			return err
		}
		_, err := c.Create(node, amount, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = c.Set(node, amount, -1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func makeAll(c *zk.Conn, node string) error {
	if node == "/" {
		return nil
	}
	if err := makeAll(c, path.Dir(node)); err != nil {
		return err
	}
	_, err := c.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
