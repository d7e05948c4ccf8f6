package session

import (
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about a writer that becomes a reader without letting another writer in
// between. While it holds, another seat makes a read node with the number of the write
// node, as Curator does; then the write node is given up, and the read node has its place
// in the queue.
//
// It is made in one transaction with a check of the write node. Without that, it would be a
// place at the head of the queue that nobody has a right to: 1. somebody deletes the
// write node; 2. the next one is granted; 3. the read node is made, ahead of it.

// Its token is that of the write node, and not the zxid that created it, which is greater than those
// of writers who wait: 1. W5 holds, created by 5, and V6 waits; 2. its read node is created, by 7; 3. W5 leaves,
// the reader shows its token to a store that refuses old ones, and leaves; 4. V6 is granted, and refused
// by the store, though nobody came after it.

// fence returns the zxid that created the node of a writer who holds, or 0.
func (t *Seat) fence() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.born
}

// createInPlace makes the node with the number of the writer's.
func (c *client) createInPlace(t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	refused := recipes.Refused{Epoch: epoch, Op: recipes.OpCreate, Missing: true}
	t.in.mu.Lock()
	own := t.in.own
	t.in.mu.Unlock()
	writer, ok := events.ParseName(path.Base(own))
	if !ok {
		return refused, ErrGuard
	}
	request := t.createRequest(c, id)
	request.Path += fmt.Sprintf("%010d", writer.Seq)
	request.Flags = zk.FlagEphemeral
	res, err := c.conn.Multi(&zk.CheckVersionRequest{Path: own, Version: anyVersion}, request)
	outcome, err := zkerr.ClassifyMulti(res, err)
	switch {
	case outcome == zkerr.Done:
		return named(epoch, request.Path)
	case errors.Is(err, zk.ErrNoNode):
		return refused, fmt.Errorf("%w: %w", ErrGuard, err)
	default:
		return classified(epoch, recipes.OpCreate, outcome, err)
	}
}
