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

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the record of a lock that reports crashes; recipes/crash.go says
// what it is for. The record stands beside the lock's directory and not in it:
// go-zookeeper's lock fails on a child that is no contender. It is not the directory's
// data either, because each contender that joins overwrites them.
//
// The record is read in another request, after the transaction that has found it. In
// between it does not become another one: only a holder that releases removes it, and
// only if its node exists. While our node is the first there is no such holder.
// Exception: for a reader it may be the writer in whose place the reader stands. Then
// that writer's record is gone, which is as good as no record.

// RecordSuffix follows the lock's path in the path of its record.
const RecordSuffix = ".holder"

// recordMagic begins a record. Lines with a key and a value follow, then an empty line,
// then the holder's data.
const recordMagic = "zkgrant holder\n"

// ErrRecord reports a node at the path of a lock's record that is not a record.
var ErrRecord = errors.New("zkgrant: not a crash record")

// holding is what a record says. Its node is the name alone, because the reader may have
// another chroot.
type holding struct {
	node  string
	token int64
	since time.Time
	data  []byte

	lockDelay
}

func (h holding) bytes() []byte {
	head := fmt.Appendf(nil, "%snode %s\ntoken 0x%x\nsince %s\n", recordMagic, h.node, h.token, h.since.UTC().Format(time.RFC3339Nano))
	return append(append(h.lockDelay.append(head), '\n'), h.data...)
}

// parseHolding reads a record. It leaves out lines that it does not understand, perhaps
// of a later form.
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
		default:
			h.lockDelay.parse(key, value)
		}
	}
	if len(rest) > 0 {
		h.data = bytes.Clone(rest)
	}
	return h, true
}

// ParseRecord parses a record for an observer: the name of the holder's node, and since
// when it has held.
func ParseRecord(data []byte) (node string, since time.Time, ok bool) {
	h, ok := parseHolding(data)
	return h.node, h.since, ok
}

// recordPath is where the record of the seat's lock is.
func (t *Seat) recordPath() string { return t.dir + RecordSuffix }

// record is what the record of the own node holds.
func (t *Seat) record(own string) []byte {
	h := holding{node: path.Base(own), token: t.token(own), since: time.Now(), data: t.data}
	h.delay = t.delay
	return h.bytes()
}

// readRecord reads the record that a claim has found, and returns what follows from that.
func (c *client) readRecord(t *Seat, x *recipes.Errand) (m recipes.Meaning, _ error) {
	node, own := x.Holder, path.Base(x.Nodes[0])
	data, stat, err := c.conn.Get(node)
	switch {
	case errors.Is(err, zk.ErrNoNode): // it is gone by now
		m.Then = recipes.ThenAgain
		return m, nil
	case err != nil:
		m.In, err = unanswered(x.Epoch, recipes.OpClaim, err)
		return m, err
	}
	h, ok := parseHolding(data)
	m.In = recipes.Refused{Epoch: x.Epoch, Op: recipes.OpClaim}
	if !ok {
		return m, fmt.Errorf("%w: %s holds %.20q", ErrRecord, node, data)
	}
	h.setStart(stat.Mtime)
	found := recipes.Found{
		Own: h.node == own, Writer: t.in != nil && h.token == t.lent,
		Delay: t.delayBehind(h), Marked: h.marked, Since: h.lockDelay.since,
		Taken:   h.taken == own || t.in != nil && h.takenBy == t.lent,
		Version: stat.Version, Mark: h.marking(), TakeOver: t.takingOver(h, x.Nodes[0]),
	}
	if found.Writer {
		found.Stands, _, err = c.conn.Exists(path.Join(t.dir, h.node))
	}
	if found.Writer && err == nil && !found.Stands {
		var now *zk.Stat
		var stands bool
		stands, now, err = c.conn.Exists(node)
		found.Gone = err == nil && (!stands || now.Czxid != stat.Czxid)
	}
	if err != nil {
		m.In, err = unanswered(x.Epoch, recipes.OpClaim, err)
		return m, err
	}
	next := x.Read(found, &events.Abandoned{
		Node: path.Join(strings.TrimPrefix(t.dir, t.session.chroot), h.node), Data: h.data, Token: h.token, Since: h.since,
	})
	if next.Then != recipes.ThenTell && !found.Gone && len(found.Mark)+2*len(node)+MarkRoom/2 > MaxRequest {
		return m, fmt.Errorf("%w: the record %s has %d bytes and no room for its lock-delay", ErrTooLarge, node, len(data))
	}
	return next, nil
}
