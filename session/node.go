package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Node is the result of reading a node. If Stat is nil, the node does not exist.
type Node struct {
	Data []byte
	Stat *zk.Stat
	// Missing are the missing paths above the node, topmost first.
	Missing []string
}

// Err returns zk.ErrNoNode if the node does not exist.
func (n Node) Err() error {
	if n.Stat == nil {
		return zk.ErrNoNode
	}
	return nil
}

// Replace returns the operations that replace the data, provided that the node has not
// changed since it was read. They create a missing node, and the missing nodes above it.
func (n Node) Replace(path string, data []byte, acl []zk.ACL) (ops []any) {
	if n.Stat != nil {
		return []any{&zk.SetDataRequest{Path: path, Data: data, Version: n.Stat.Version}}
	}
	for _, above := range n.Missing {
		ops = append(ops, &zk.CreateRequest{Path: above, Acl: acl})
	}
	return append(ops, &zk.CreateRequest{Path: path, Data: data, Acl: acl})
}

// IsOutdated reports whether [Node.Replace] was refused because the nodes have changed
// since they were read.
func IsOutdated(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrNoNode)
}

// Read reads a node in the session of the epoch, and in no other: only there is every
// read newer than the Grant. The path does not include the chroot. Read waits for a
// connection and for the answers until ctx ends. The error is [ErrPath], [ErrEpochOver],
// a server's refusal, or the cause of ctx.
func (t *Seat) Read(ctx context.Context, epoch recipes.Epoch, node string) (Node, error) {
	if err := ValidatePath(node); err != nil {
		return Node{}, err
	}
	s := t.session
	return call(ctx, s, callOptions{epoch: epoch, urgent: handing}, func(c *client) (n Node, err error) {
		if t.news.Load() {
			// A sync would not do: a leader that was deposed without knowing it answers a
			// sync, but no write.
			if outcome, err := c.barrier(under(s.chroot, node)); !outcome.Settled() {
				return n, err
			}
			t.news.Store(false)
		}
		n.Data, n.Stat, err = c.conn.Get(under(s.chroot, node))
		if !errors.Is(err, zk.ErrNoNode) {
			return n, err
		}
		n = Node{}
		for above := path.Dir(node); above != "/"; above = path.Dir(above) {
			there, _, err := c.conn.Exists(under(s.chroot, above))
			if there || err != nil {
				return n, err
			}
			n.Missing = append([]string{above}, n.Missing...)
		}
		return n, nil
	})
}

// The rest of the file is about the data of a contender's node: a revocation request, the
// user's data, and the session timeout of a revocable contender, in this order. A request
// has one of two forms:
//
//	__REVOKE__                  Curator's: as soon as possible
//	__REVOKE__ <grace>\n<data>  ours: within that many milliseconds; then the other data
//
// Curator compares the data with its message, so it does not recognize our form. Its
// message replaces all data of the holder.

// revokeMessage is what Curator's Revoker writes. It replaces the holder's own data.
const revokeMessage = "__REVOKE__"

// mostGrace is the longest grace.
const mostGrace = 100 * 365 * 24 * time.Hour

// revocation is a revocation request in the data of a node. The zero value means that
// there is none.
type revocation struct {
	stands  bool
	bounded bool          // it has a grace
	grace   time.Duration // counted from when the holder reads the request
}

// read returns the revocation request in the data of a node, and the remaining data.
func read(data []byte) (w revocation, rest []byte) {
	rest, ok := bytes.CutPrefix(data, []byte(revokeMessage))
	if !ok {
		return revocation{}, data
	}
	if len(rest) == 0 {
		return revocation{stands: true}, nil
	}
	header, rest, ok := bytes.Cut(rest, []byte("\n"))
	digits, spaced := bytes.CutPrefix(header, []byte(" "))
	if !ok || !spaced {
		return revocation{}, data
	}
	millis, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return revocation{}, data
	}
	grace := mostGrace
	if millis < uint64(mostGrace/time.Millisecond) {
		grace = time.Duration(millis) * time.Millisecond
	}
	return revocation{stands: true, bounded: true, grace: grace}, rest
}

// data returns the request as written to the node, followed by the node's other data.
func (w revocation) data(rest []byte) []byte {
	if !w.bounded {
		return []byte(revokeMessage)
	}
	return append(fmt.Appendf(nil, "%s %d\n", revokeMessage, w.grace/time.Millisecond), rest...)
}

// within returns a request with this grace.
func within(grace time.Duration) revocation {
	grace = min(max(grace, 0), mostGrace)
	return revocation{stands: true, bounded: true, grace: (grace + time.Millisecond - 1).Truncate(time.Millisecond)}
}

// Reserved reports whether data begin like a revocation request, and would be mistaken
// for one.
func Reserved(data []byte) bool { return bytes.HasPrefix(data, []byte(revokeMessage)) }

// timeoutKey and timeoutEnd enclose a contender's session timeout in the data of each
// node with [events.MarkRevocable]. A revoker must wait until the holder's lease has run
// out, but cannot ask a server for the timeout.
//
//	zkgrant-timeout <milliseconds>ms\n            a node without data
//	<data>\nzkgrant-timeout <milliseconds>ms\n    a node with data, which may be empty
//
// The timeout is in the data because the name has room for only a few bits. It is a line
// of text because people read the data, and kazoo decodes them as UTF-8. It is at the end
// because a request is at the beginning, and a writer of a request leaves what follows
// unchanged. The line names its library and ends with a line feed, so no user stores it
// by accident. If one does, a second line follows, and only the last one counts.
//
// Nodes of earlier versions and other libraries do not have the line, nor do nodes whose
// data Curator's Revoker has overwritten.
const timeoutKey, timeoutEnd = "zkgrant-timeout ", "ms\n"

// TimeoutSize is the maximum size of the line, in bytes.
const TimeoutSize = 1 + len(timeoutKey) + 10 + len(timeoutEnd)

// withTimeout returns the user's data followed by the line. It preserves the difference
// between no data and empty data.
func withTimeout(user []byte, timeout time.Duration) []byte {
	data := make([]byte, 0, len(user)+TimeoutSize)
	if user != nil {
		data = append(append(data, user...), '\n')
	}
	return fmt.Appendf(data, "%s%d%s", timeoutKey, min(max(timeout.Milliseconds(), 0), math.MaxInt32),
		timeoutEnd)
}

// splitTimeout is the inverse of withTimeout. Without a line the data are the user's, and
// the timeout is 0.
func splitTimeout(data []byte) (user []byte, timeout time.Duration) {
	at := bytes.LastIndex(data, []byte(timeoutKey))
	if at < 0 || at > 0 && data[at-1] != '\n' {
		return data, 0
	}
	digits, ok := bytes.CutSuffix(data[at+len(timeoutKey):], []byte(timeoutEnd))
	millis, err := strconv.ParseInt(string(digits), 10, 32)
	if !ok || err != nil || millis < 0 || strconv.FormatInt(millis, 10) != string(digits) {
		return data, 0
	}
	timeout = time.Duration(millis) * time.Millisecond
	if at == 0 {
		return nil, timeout
	}
	return data[: at-1 : at-1], timeout
}

// timeoutIn returns the holder's session timeout from its node's data, or 0. The data
// must not include a revocation request.
func timeoutIn(node string, data []byte) time.Duration {
	if !events.HasMark(node, events.MarkRevocable) {
		return 0
	}
	_, timeout := splitTimeout(data)
	return timeout
}

// UserData returns the data that the node's owner stored, without a revocation request
// written before or over them, and without the session timeout of a revocable node.
func UserData(node string, data []byte) []byte {
	_, user := read(data)
	if events.HasMark(node, events.MarkRevocable) {
		user, _ = splitTimeout(user)
	}
	return user
}

// guidMark begins a protected name: `_c_<uuid>-<marker of the kind><number>`. That is
// Curator's form, which all libraries read as a contender except kazoo, which needs `<32
// digits of the uuid><marker><number>`.
const guidMark = "_c_"

// guid is a UUID of version 8, whose bits an application may choose (RFC 9562). Four bits
// are the marks. For a semaphore's contender, sixteen bits are the number of permits (see
// [events.PermitsOf]). All others are random.
type guid [16]byte

func newGUID(marks events.Marks, permits int32) (id guid) {
	// Since Go 1.24 Read fills id or ends the process.
	_, _ = rand.Read(id[:])
	if permits > 0 && permits <= math.MaxUint16 { // a request for more would be too large for any server
		marks |= events.MarkPermits
		id[7], id[9] = byte(permits>>8), byte(permits)
	}
	id[6] = 0x80 | byte(marks)&0x0f
	id[8] = id[8]&0x3f | 0x80
	return id
}

// appendHead appends the GUID with which the names of an attempt's nodes begin, in the
// form of the kind's library.
func appendHead(b []byte, kind events.Kind, id guid) []byte {
	if kind.Kazoo() {
		return hex.AppendEncode(b, id[:])
	}
	b = append(b, guidMark...)
	from := 0
	for _, to := range [...]int{4, 6, 8, 10, len(id)} { // the canonical form of 36 characters
		b = append(hex.AppendEncode(b, id[from:to]), '-')
		from = to
	}
	return b
}

// head returns the result of appendHead as a string.
func head(kind events.Kind, id guid) string {
	var room [64]byte
	return string(appendHead(room[:0], kind, id))
}

// AttemptOf returns what the names of all nodes of one semaphore attempt have in common:
// the GUID with which they begin. It returns any other name unchanged. node may be a
// path.
func AttemptOf(node string) string {
	name := node[strings.LastIndexByte(node, '/')+1:]
	const length = len(guidMark) + 36
	if len(name) < length || !strings.HasPrefix(name, guidMark) {
		return name
	}
	return name[:length]
}
