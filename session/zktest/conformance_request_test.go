package zktest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// scriptRequest is a request of the script on its way.
type scriptRequest struct {
	verb string
	op   Op
	xid  int32 // 0 for the next one of the connection
	body []byte
}

// verbs are the requests of the script, with their number in the protocol.
var verbs = map[string]Op{
	"create": OpCreate, "create2": OpCreate2, "container": OpCreateContainer, "ttl": OpCreateTTL,
	"delete": OpDelete, "exists": OpExists, "get": OpGetData, "set": OpSetData,
	"children": OpGetChildren, "children2": OpGetChildren2, "getacl": OpGetACL, "setacl": OpSetACL,
	"sync": OpSync, "ping": OpPing, "check": OpCheck, "multi": OpMulti, "auth": OpAuth,
	"setwatches": OpSetWatches, "checkwatches": OpCheckWatches, "removewatches": OpRemoveWatches,
	"close": OpClose,
}

// request encodes a request of a client of the script.
func (p *player) request(verb string, a arguments, input string) (scriptRequest, error) {
	q := scriptRequest{verb: verb, op: verbs[verb]}
	var err error
	switch verb {
	case "close":
	case "ping":
		q.xid = -2
	case "auth":
		q.xid = -4
		scheme, _ := a.text("scheme")
		id, _ := a.text("id")
		q.body = appendBytes(appendString(appendInt32(nil, 0), scheme), []byte(id))
	case "setwatches":
		q.xid = -8
		q.body, err = p.setWatches(a)
	case "multi":
		q.body, err = p.multi(input)
	case "raw":
		var op int64
		op, err = a.number("op", 0)
		q.op = Op(op)
	case "malformed":
		of, _ := a.text("of")
		q.op, q.body = verbs[of], []byte{0, 0, 0, 9, 'x'}
	default:
		if q.op == 0 {
			return q, fmt.Errorf("no such request: %s", verb)
		}
		q.body, err = nodeBody(q.op, a)
	}
	return q, err
}

// nodeBody encodes a request that is about one node.
func nodeBody(op Op, a arguments) ([]byte, error) {
	p, err := a.path()
	if err != nil {
		return nil, err
	}
	b := appendString(nil, p)
	version, err := a.number("version", -1)
	if err != nil {
		return nil, err
	}
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		list, err := a.acls()
		if err != nil {
			return nil, err
		}
		flags, err := a.flags(op)
		if err != nil {
			return nil, err
		}
		b = appendInt32(appendACLs(appendBytes(b, a.data()), list), flags)
		if op == OpCreateTTL {
			ms, err := a.number("ms", 0)
			if err != nil {
				return nil, err
			}
			b = appendInt64(b, ms)
		}
		return b, nil
	case OpDelete, OpCheck:
		return appendInt32(b, int32(version)), nil
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		_, watch := a.text("watch")
		return appendBool(b, watch), nil
	case OpSetData:
		return appendInt32(appendBytes(b, a.data()), int32(version)), nil
	case OpGetACL, OpSync:
		return b, nil
	case OpSetACL:
		list, err := a.acls()
		return appendInt32(appendACLs(b, list), int32(version)), err
	case OpCheckWatches, OpRemoveWatches:
		kind, err := a.number("kind", 0)
		return appendInt32(b, int32(kind)), err
	}
	return nil, fmt.Errorf("%v is not about a node", op)
}

// setWatches encodes the request by which a client arms its watches again.
func (p *player) setWatches(a arguments) ([]byte, error) {
	since, _ := a.text("since")
	zxid, err := p.names.parseZxid(since)
	b := appendInt64(nil, zxid)
	for _, key := range []string{"data", "exist", "child"} {
		list, _ := a.list(key)
		b = appendStrings(b, list)
	}
	return b, err
}

// multi encodes the requests in the lines of input.
func (p *player) multi(input string) ([]byte, error) {
	var b []byte
	for l := range strings.Lines(input) {
		verb, args, err := datadriven.ParseLine(l)
		if err != nil {
			return nil, err
		}
		part, err := p.request(verb, args, "")
		if err != nil {
			return nil, err
		}
		b = append(appendPart(b, part.op, false, -1), part.body...)
	}
	return appendPart(b, opError, true, -1), nil
}

// data is the data of a node. Without the argument it is nil, which differs from empty data.
func (a arguments) data() []byte {
	if size, err := a.number("size", -1); err == nil && size >= 0 {
		return make([]byte, size)
	}
	if v, given := a.text("data"); given {
		return []byte(v)
	}
	return nil
}

// flags are the flags of a creation, by name or as a number.
func (a arguments) flags(op Op) (int32, error) {
	list, given := a.list("flags")
	if !given {
		switch op {
		case OpCreateContainer:
			return flagContainer, nil
		case OpCreateTTL:
			return flagTTL, nil
		}
	}
	var flags int32
	for _, f := range list {
		switch f {
		case "ephemeral":
			flags |= flagEphemeral
		case "sequential":
			flags |= flagSequential
		default:
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			flags = int32(n)
		}
	}
	return flags, nil
}

// acls reads entries such as world:anyone:cdrwa and digest:ann:secret:r. It hashes the
// password of a digest. Without the argument every client has all permissions.
func (a arguments) acls() ([]acl, error) {
	entries, given := a.list("acl")
	if !given {
		return openACL(), nil
	}
	var list []acl
	for _, entry := range entries {
		if entry == "" {
			continue
		}
		scheme, rest, _ := strings.Cut(entry, ":")
		i := strings.LastIndex(rest, ":")
		if i < 0 {
			return nil, errors.New("an entry is scheme:id:permissions")
		}
		id := rest[:i]
		if scheme == "digest" && strings.Contains(id, ":") {
			id = digest([]byte(id)).id
		}
		var perms int32
		for _, letter := range rest[i+1:] {
			perms |= 1 << strings.IndexRune(permLetters, letter)
		}
		list = append(list, acl{perms, identity{scheme, id}})
	}
	return list, nil
}

// permLetters are the permissions, the lowest bit first.
const permLetters = "rwcda"
