package session

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about the record of a lock that tells of crashes; recipes/crash.go says what it is for. It stands beside
// the lock's directory and not in it: go-zookeeper's lock fails on a child that is no contender, and the data of the
// directory are overwritten by whoever joins.
//
// It is read behind the transaction that has found it, in another request. In between it does not become another one:
// only whoever releases removes it, and only he whose node exists. That is nobody while ours is the first. For a
// reader it may be the writer in whose place it stands; that one's record is then gone, which is as good as none.

// RecordSuffix is what a record's path has behind that of its lock.
const RecordSuffix = ".holder"

// recordMagic begins a record. Lines with a key and a value follow, then an empty one, then the holder's data.
const recordMagic = "zkgrant holder\n"

// ErrRecord says that where the record of a lock should be there is a node that is none.
var ErrRecord = errors.New("zkgrant: no record of a holder")

// holding is what a record says. Its node is the name alone, for who reads it may have another chroot.
type holding struct {
	node  string
	token int64
	since time.Time
	data  []byte
}

func (h holding) bytes() []byte {
	head := fmt.Appendf(nil, "%snode %s\ntoken 0x%x\nsince %s\n\n", recordMagic, h.node, h.token, h.since.UTC().Format(time.RFC3339Nano))
	return append(head, h.data...)
}

// parseHolding reads a record. What it does not understand in it, of a later form perhaps, it leaves out.
func parseHolding(data []byte) (h holding, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(recordMagic))
	if !ok {
		return holding{}, false
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if len(line) == 0 {
			break
		}
		key, value, _ := strings.Cut(string(line), " ")
		switch key {
		case "node":
			h.node = value
		case "token":
			if token, err := strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64); err == nil {
				h.token = token
			}
		case "since":
			if since, err := time.Parse(time.RFC3339Nano, value); err == nil {
				h.since = since
			}
		}
	}
	if len(rest) > 0 {
		h.data = bytes.Clone(rest)
	}
	return h, true
}

// recordPath is where the record of the seat's lock is.
func (t *Seat) recordPath() string { return t.dir + RecordSuffix }

// makeRecord asks for the record of the own node.
func (t *Seat) makeRecord(own string) *zk.CreateRequest {
	h := holding{node: path.Base(own), token: t.token(own), since: time.Now(), data: t.data}
	return &zk.CreateRequest{Path: t.recordPath(), Data: h.bytes(), Acl: t.acl, Flags: zk.FlagPersistent}
}

// claimRecorded is claim in one transaction with a look at the record, which is made if it should be and there is none. It is
// a proof as well when that part is refused: the other was not, at that point of the servers' order.
func (c *client) claimRecorded(t *Seat, e recipes.Claim) (recipes.Input, error) {
	own := t.at(e.Node)
	ops := []any{&zk.CheckVersionRequest{Path: own, Version: anyVersion}, nil}
	for range reaped {
		makes := e.Record == recipes.RecordMade
		if makes {
			ops[1] = t.makeRecord(own)
		} else {
			ops[1] = &zk.CheckVersionRequest{Path: t.recordPath(), Version: anyVersion}
		}
		res, err := c.conn.Multi(ops...)
		failed := zkerr.FailedOp(res)
		outcome, err := zkerr.ClassifyMulti(res, err)
		stands := outcome == zkerr.Done
		switch {
		case makes && outcome == zkerr.Done, !makes && failed == 1 && errors.Is(err, zk.ErrNoNode):
			return t.recorded(e.Epoch, nil), nil
		case makes && failed == 1 && errors.Is(err, zk.ErrNodeExists):
			stands = true
		}
		if !stands {
			in, err := classified(e.Epoch, recipes.OpClaim, outcome, err)
			if refused, ok := in.(recipes.Refused); ok && failed == 1 {
				refused.Missing = false // it was not about the own node
				return refused, fmt.Errorf("%s: %w", t.recordPath(), err)
			}
			return in, err
		}
		in, err := c.readRecord(t, e)
		if in != nil {
			return in, err
		}
	}
	return recipes.Unknown{Epoch: e.Epoch, Op: recipes.OpClaim}, fmt.Errorf("%s is deleted as often as it is made: %w", t.recordPath(), zk.ErrNoNode)
}

// recorded is the answer to a claim: the node is the own one, and what somebody has left behind is kept for those who
// enter again.
func (t *Seat) recorded(epoch recipes.Epoch, left *events.Abandoned) recipes.Claimed {
	t.abandoned.Store(left)
	return recipes.Claimed{Epoch: epoch, Recorded: true, Abandoned: left}
}

// readRecord reads the record that a claim has found. It returns nil if it is gone by then.
func (c *client) readRecord(t *Seat, e recipes.Claim) (recipes.Input, error) {
	node := t.recordPath()
	data, stat, err := c.conn.Get(node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return unanswered(e.Epoch, recipes.OpClaim, err)
	}
	h, ok := parseHolding(data)
	if !ok {
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpClaim}, fmt.Errorf("%w: %s holds %.20q", ErrRecord, node, data)
	}
	if e.Record == recipes.RecordMade && h.node == path.Base(e.Node) {
		return t.recorded(e.Epoch, nil), nil // a claim before this one was executed, and its answer lost
	}
	if t.in != nil && h.token == t.lent { // that of the writer in whose place it stands
		stands, _, err := c.conn.Exists(path.Join(t.dir, h.node))
		if err != nil {
			return unanswered(e.Epoch, recipes.OpClaim, err)
		}
		if stands {
			return t.recorded(e.Epoch, nil), nil
		}
		// 1. The record was read; 2. the writer released, which removed both; 3. its node is not there.
		switch stands, now, err := c.conn.Exists(node); {
		case err != nil:
			return unanswered(e.Epoch, recipes.OpClaim, err)
		case !stands || now.Czxid != stat.Czxid:
			return nil, nil
		}
	}
	return t.recorded(e.Epoch, &events.Abandoned{
		Node: path.Join(strings.TrimPrefix(t.dir, t.session.chroot), h.node), Data: h.data, Token: h.token, Since: h.since,
	}), nil
}

// removeClean deletes the own node and the record, and leaves a floor if it should.
func (c *client) removeClean(t *Seat, e recipes.Delete, node string) (recipes.Input, error) {
	record := t.recordPath()
	ops := []any{&zk.DeleteRequest{Path: node, Version: anyVersion}, &zk.DeleteRequest{Path: record, Version: anyVersion}}
	if token := t.token(node); e.Floor && token != 0 && t.brief() && c.dirs.book(t.dir).Writable() != 0 {
		ops = append(ops, &zk.SetDataRequest{Path: t.dir, Data: recipes.FloorData(token), Version: anyVersion})
	}
	res, err := c.conn.Multi(ops...)
	failed := zkerr.FailedOp(res)
	outcome, err := zkerr.ClassifyMulti(res, err)
	refused := outcome == zkerr.Refused && !zkerr.Unsettled(err)
	switch {
	case outcome == zkerr.Done:
		if len(res) > 2 && res[2].Stat != nil {
			c.leftFloor(t, res[2].Stat)
		}
		return recipes.Deleted{Epoch: e.Epoch}, nil
	case refused && failed == 0 && errors.Is(err, zk.ErrNoNode): // by an earlier try; or it was lost, and the record stays
		return recipes.Deleted{Epoch: e.Epoch}, nil
	case refused && failed == 2:
		c.dirs.shut(t.dir)
		e.Floor = false
		return c.removeClean(t, e, node)
	case refused && failed == 1:
		e.Clean = false
		in, other := c.removeOwn(t, e)
		if _, gone := in.(recipes.Deleted); !gone || errors.Is(err, zk.ErrNoNode) {
			return in, other // without a record there is nothing else to do
		}
		c.logger.Warn("could not remove the record of a holder who has released; the next one is told of a crash",
			zap.String("record", record), zap.Error(err))
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpDelete}, fmt.Errorf("released, and its record stays at %s: %w", record, err)
	}
	return classified(e.Epoch, recipes.OpDelete, outcome, err)
}
