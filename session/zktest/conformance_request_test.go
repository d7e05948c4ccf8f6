package zktest

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
)

type scriptRequest struct {
	verb string
	op   Op
	xid  int32 // 0: the next one of the connection
	body []byte
}

// verbs has the requests of the script, with their numbers in the protocol.
var verbs = map[string]Op{
	"create": OpCreate, "create2": OpCreate2, "container": OpCreateContainer, "ttl": OpCreateTTL,
	"delete": OpDelete, "exists": OpExists, "get": OpGetData, "set": OpSetData,
	"children": OpGetChildren, "children2": OpGetChildren2, "getacl": OpGetACL, "setacl": OpSetACL,
	"sync": OpSync, "ping": OpPing, "check": OpCheck, "multi": OpMulti, "auth": OpAuth,
	"setwatches": OpSetWatches, "checkwatches": OpCheckWatches, "removewatches": OpRemoveWatches,
	"close": OpClose,
}

func (p *player) request(verb string, a arguments, input string) scriptRequest {
	q := scriptRequest{verb: verb, op: verbs[verb]}
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
		q.body = p.setWatches(a)
	case "multi":
		for _, part := range p.requests(input) {
			q.body = append(appendPart(q.body, part.op, false, -1), part.body...)
		}
		q.body = appendPart(q.body, opError, true, -1)
	case "raw":
		q.op = Op(p.number(a, "op", 0))
	case "malformed":
		of, _ := a.text("of")
		q.op, q.body = verbs[of], []byte{0, 0, 0, 9, 'x'}
	default:
		if q.op == 0 {
			p.fail("no such request: %s", verb)
		}
		q.body = p.nodeBody(q.op, a)
	}
	return q
}

func (p *player) requests(input string) (list []scriptRequest) {
	for l := range strings.Lines(input) {
		verb, args, err := datadriven.ParseLine(l)
		p.must(err)
		list = append(list, p.request(verb, args, ""))
	}
	return list
}

func (p *player) nodeBody(op Op, a arguments) []byte {
	b := appendString(nil, p.path(a))
	version := int32(p.number(a, "version", -1))
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		b = appendInt32(appendACLs(appendBytes(b, p.data(a)), p.acls(a)), p.flags(op, a))
		if op == OpCreateTTL {
			b = appendInt64(b, p.number(a, "ms", 0))
		}
		return b
	case OpDelete, OpCheck:
		return appendInt32(b, version)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		_, watch := a.text("watch")
		return appendBool(b, watch)
	case OpSetData:
		return appendInt32(appendBytes(b, p.data(a)), version)
	case OpGetACL, OpSync:
		return b
	case OpSetACL:
		return appendInt32(appendACLs(b, p.acls(a)), version)
	case OpCheckWatches, OpRemoveWatches:
		return appendInt32(b, int32(p.number(a, "kind", 0)))
	}
	p.fail("%v is not about a node", op)
	return nil
}

func (p *player) setWatches(a arguments) []byte {
	since, _ := a.text("since")
	zxid, err := p.names.parseZxid(since)
	p.must(err)
	b := appendInt64(nil, zxid)
	for _, key := range []string{"data", "exist", "child"} {
		list, _ := a.list(key)
		b = appendStrings(b, list)
	}
	return b
}

// data returns the data of a node. Without the argument, it returns nil, which differs
// from empty data.
func (p *player) data(a arguments) []byte {
	if size := p.number(a, "size", -1); size >= 0 {
		return make([]byte, size)
	}
	if v, given := a.text("data"); given {
		return []byte(v)
	}
	return nil
}

func (p *player) flags(op Op, a arguments) (flags int32) {
	list, given := a.list("flags")
	if !given {
		return map[Op]int32{OpCreateContainer: flagContainer, OpCreateTTL: flagTTL}[op]
	}
	for _, f := range list {
		switch f {
		case "ephemeral":
			flags |= flagEphemeral
		case "sequential":
			flags |= flagSequential
		default:
			n, err := strconv.Atoi(f)
			p.must(err)
			flags = int32(n)
		}
	}
	return flags
}

// acls parses entries such as world:anyone:cdrwa and digest:ann:secret:r. It hashes the
// password of a digest. Without the argument, every client has all permissions.
func (p *player) acls(a arguments) (list []acl) {
	entries, given := a.list("acl")
	if !given {
		return openACL()
	}
	for _, entry := range entries {
		if entry == "" {
			continue
		}
		scheme, rest, _ := strings.Cut(entry, ":")
		i := strings.LastIndex(rest, ":")
		if i < 0 {
			p.fail("an entry is scheme:id:permissions")
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
	return list
}

// permLetters has the letters of the permissions, lowest bit first.
const permLetters = "rwcda"
