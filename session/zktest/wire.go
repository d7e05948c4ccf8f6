package zktest

import (
	"encoding/binary"
	"errors"
)

// maxFrame is the length of the largest frame that a client may send, a server's default
// for jute.maxbuffer. A longer one costs the client its connection.
const maxFrame = 0xfffff

// errMalformed reports a request body that does not decode.
var errMalformed = errors.New("zktest: malformed request")

// decoder reads ZooKeeper's big-endian encoding from a frame. The first read beyond the
// end makes it fail for good: every later read returns the zero value. So callers check
// err once, after the last field.
type decoder struct {
	buf string
	err error
}

// take returns the next n bytes, or none if there are fewer.
func (d *decoder) take(n int) string {
	if d.err != nil || n < 0 || n > len(d.buf) {
		d.err = errMalformed
		return ""
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != "" {
		return int32(binary.BigEndian.Uint32([]byte(b)))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != "" {
		return int64(binary.BigEndian.Uint64([]byte(b)))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != "" && b[0] != 0
}

// bytes reads a buffer and copies it. A length of -1 means no buffer, which differs from
// an empty one.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if d.err != nil || n == -1 {
		return nil
	}
	return []byte(d.take(int(n)))
}

// string reads a string without copying it. A string that outlives the request must be
// cloned, or it would keep the whole frame in memory.
func (d *decoder) string() string {
	n := d.int32()
	if d.err != nil || n == -1 {
		return ""
	}
	return d.take(int(n))
}

// count reads the length of a vector whose elements take at least size bytes each. A
// count that the frame cannot hold is refused before anything is allocated.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if d.err != nil || n == -1 {
		return 0
	}
	if n < 0 || n > len(d.buf)/size {
		d.err = errMalformed
		return 0
	}
	return n
}

func (d *decoder) strings() []string {
	n := d.count(4)
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) acls() []acl {
	n := d.count(12)
	list := make([]acl, 0, n)
	for range n {
		perms := d.int32()
		scheme := d.string()
		list = append(list, acl{perms: perms, identity: identity{scheme: scheme, id: d.string()}})
	}
	return list
}

func appendInt32(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(v))
}

func appendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(v))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(len(v))), v...)
}

func appendString(b []byte, v string) []byte {
	return append(appendInt32(b, int32(len(v))), v...)
}

func appendStrings(b []byte, list []string) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, v := range list {
		b = appendString(b, v)
	}
	return b
}

func appendACLs(b []byte, list []acl) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, a := range list {
		b = appendInt32(b, a.perms)
		b = appendString(b, a.scheme)
		b = appendString(b, a.id)
	}
	return b
}

func appendStat(b []byte, st stat) []byte {
	b = appendInt64(b, st.czxid)
	b = appendInt64(b, st.mzxid)
	b = appendInt64(b, st.ctime)
	b = appendInt64(b, st.mtime)
	b = appendInt32(b, st.version)
	b = appendInt32(b, st.cversion)
	b = appendInt32(b, st.aversion)
	b = appendInt64(b, st.owner)
	b = appendInt32(b, st.dataLength)
	b = appendInt32(b, st.children)
	return appendInt64(b, st.pzxid)
}

// frame prepends the four length bytes to body.
func frame(body []byte) []byte {
	return append(appendInt32(make([]byte, 0, 4+len(body)), int32(len(body))), body...)
}

// replyHead is the length of what precedes the body of a reply.
const replyHead = 20

// newReply returns a reply with an empty head and no body. It has room for most bodies.
func newReply() []byte { return make([]byte, replyHead, 256) }

// replyFrame returns the answer to the request xid: the reply with its head filled in.
// Only a success has a body.
func replyFrame(xid int32, zxid int64, code Code, reply []byte) []byte {
	if code != ok || reply == nil {
		reply = make([]byte, replyHead)
	}
	binary.BigEndian.PutUint32(reply, uint32(len(reply)-4))
	binary.BigEndian.PutUint32(reply[4:], uint32(xid))
	binary.BigEndian.PutUint64(reply[8:], uint64(zxid))
	binary.BigEndian.PutUint32(reply[16:], uint32(code))
	return reply
}

// eventFrame returns the notification of a watch. Its zxid is -1: servers before 3.9 do
// not send the zxid of the transaction that caused an event.
func eventFrame(e event) []byte {
	b := make([]byte, 0, 32+len(e.path))
	b = appendInt32(b, int32(28+len(e.path)))
	b = appendInt32(b, -1)
	b = appendInt64(b, -1)
	b = appendInt32(b, 0)
	b = appendInt32(b, int32(e.kind))
	b = appendInt32(b, stateConnected)
	return appendString(b, e.path)
}

// stateConnected is the only connection state in an event of this server.
const stateConnected = 3
