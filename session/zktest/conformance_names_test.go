package zktest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// names writes answers, with fixed names for everything that differs between servers.
//
// A zxid is named after its distance from the first one seen in the file, zxid1. So order
// and distance stay visible, and an additional transaction shows. Sessions are named in
// order of appearance. Times are not written. Each is checked to be that of its
// transaction, and not earlier than those of earlier transactions.
type names struct {
	stamped  bool  // events may have a zxid
	base     int64 // the zxid before zxid1; -1 until the first is seen
	vain     []vain
	sessions []int64
	times    map[int64]int64 // milliseconds by zxid
	received int             // packets, when first queried
}

// vain is a number of transactions that did nothing, which only some servers make. They
// are not counted.
type vain struct{ after, number int64 }

func (n *names) zxid(z int64) string {
	if name := map[int64]string{-1: "none", 0: "zero"}[z]; name != "" {
		return name
	}
	if n.base < 0 {
		n.base = z - 1
	}
	distance := z - n.base
	for _, v := range n.vain {
		distance -= min(max(z-v.after, 0), v.number)
	}
	return "zxid" + strconv.FormatInt(distance, 10)
}

func (n *names) parseZxid(name string) (int64, error) {
	if name == "zero" {
		return 0, nil
	}
	distance, err := strconv.ParseInt(strings.TrimPrefix(name, "zxid"), 10, 64)
	z := n.base + distance
	for _, v := range n.vain {
		if z > v.after {
			z += v.number
		}
	}
	return z, err
}

func (n *names) session(id int64) string {
	if id == 0 {
		return "nobody"
	}
	i := slices.Index(n.sessions, id)
	if i < 0 {
		i = len(n.sessions)
		n.sessions = append(n.sessions, id)
	}
	return "session" + strconv.Itoa(i+1)
}

// event writes a notification. Servers since 3.9.0 stamp most of them with the zxid of
// the change.
func (n *names) event(r reply) string {
	kind, state, path := eventKind(r.body.int32()), r.body.int32(), r.body.string()
	what := map[eventKind]string{
		nodeCreated: "created", nodeDeleted: "deleted", dataChanged: "data changed", childrenChanged: "children changed",
	}[kind]
	s := fmt.Sprintf("event %s %s", cmp.Or(what, fmt.Sprint("kind ", kind)), path)
	if r.zxid != -1 && !n.stamped || state != stateConnected || r.code != ok {
		s += fmt.Sprintf(" (zxid %s, state %d, code %d)", n.zxid(r.zxid), state, r.code)
	}
	return s + n.rest(r.body)
}

// answer writes the answer to q in one line, and a second one for a Stat. If it is one of
// several answers, it includes the request's name.
func (n *names) answer(r reply, q scriptRequest, several bool) string {
	s := n.zxid(r.zxid) + " " + codeName(r.code)
	if several {
		s = q.verb + ": " + s
	}
	if r.code == ok {
		s += n.result(q.op, r.body)
	}
	return s + n.rest(r.body) + "\n"
}

func codeName(c Code) string { return strings.TrimPrefix(c.Error(), "zktest: ") }

func (n *names) rest(d *decoder) string {
	switch {
	case d.err != nil:
		return " (cut short)"
	case len(d.buf) > 0:
		return fmt.Sprintf(" (and %d bytes more)", len(d.buf))
	}
	return ""
}

func (n *names) result(op Op, d *decoder) string {
	switch op {
	case OpCreate, OpSync:
		return " " + d.string()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return " " + d.string() + n.stat(d)
	case OpExists, OpSetData, OpSetACL:
		return n.stat(d)
	case OpGetData:
		data := d.bytes()
		switch {
		case data == nil:
			return " nothing" + n.stat(d)
		case len(data) > 100:
			return fmt.Sprintf(" %d bytes", len(data)) + n.stat(d)
		}
		return fmt.Sprintf(" %q", data) + n.stat(d)
	case OpGetChildren:
		return " " + children(d)
	case OpGetChildren2:
		return " " + children(d) + n.stat(d)
	case OpGetACL:
		return n.acls(d) + n.stat(d)
	case OpMulti:
		return n.parts(d)
	}
	return ""
}

func children(d *decoder) string {
	list := d.strings()
	slices.Sort(list)
	return "[" + strings.Join(list, " ") + "]"
}

func (n *names) acls(d *decoder) string {
	var s strings.Builder
	for _, a := range d.acls() {
		var perms strings.Builder
		for i, letter := range permLetters {
			if a.perms&(1<<i) != 0 {
				perms.WriteRune(letter)
			}
		}
		fmt.Fprintf(&s, " %s:%s:%s", a.scheme, a.id, perms.String())
	}
	return s.String()
}

func (n *names) parts(d *decoder) string {
	var s strings.Builder
	for d.err == nil {
		kind, done, code := Op(d.int32()), d.bool(), Code(d.int32())
		if done {
			if kind != opError || code != -1 {
				fmt.Fprintf(&s, "\n  the end is %v, %d", kind, code)
			}
			break
		}
		if kind == opError {
			fmt.Fprintf(&s, "\n  failed %s", codeName(code))
			if again := Code(d.int32()); again != code {
				fmt.Fprintf(&s, ", and %s", codeName(again))
			}
			continue
		}
		fmt.Fprintf(&s, "\n  %v %s", kind, codeName(code))
		s.WriteString(strings.ReplaceAll(n.result(kind, d), "\n  ", "\n    "))
	}
	return s.String()
}

func decodeStat(d *decoder) stat {
	return stat{
		czxid: d.int64(), mzxid: d.int64(), ctime: d.int64(), mtime: d.int64(),
		version: d.int32(), cversion: d.int32(), aversion: d.int32(),
		owner: d.int64(), dataLength: d.int32(), children: d.int32(), pzxid: d.int64(),
	}
}

func (n *names) stat(d *decoder) string {
	st := decodeStat(d)
	if d.err != nil {
		return ""
	}
	owner := n.session(st.owner)
	s := fmt.Sprintf("\n  czxid=%s mzxid=%s pzxid=%s version=%d cversion=%d aversion=%d owner=%s length=%d children=%d",
		n.zxid(st.czxid), n.zxid(st.mzxid), n.zxid(st.pzxid), st.version, st.cversion, st.aversion, owner, st.dataLength, st.children)
	return s + n.time("ctime", st.czxid, st.ctime) + n.time("mtime", st.mzxid, st.mtime)
}

// time checks a time against the known transactions.
func (n *names) time(field string, zxid, ms int64) string {
	if known, seen := n.times[zxid]; seen && known != ms {
		return fmt.Sprintf(" %s-is-another-time", field)
	}
	n.times[zxid] = ms
	for z, other := range n.times {
		if z < zxid && other > ms || z > zxid && other < ms {
			return fmt.Sprintf(" %s-is-out-of-order", field)
		}
	}
	return ""
}

// counted has the counters of mntr that are worth comparing. Sent packets are not: a real
// server counts the lines of its answers to words.
var counted = []string{
	"zk_server_state", "zk_num_alive_connections", "zk_outstanding_requests",
	"zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_packets_received",
}

func (n *names) status(word, answer string) string {
	if word == "mntr" {
		return n.counters(answer)
	}
	var s strings.Builder
	for l := range strings.Lines(answer) {
		l = strings.TrimRight(l, "\r\n")
		switch key, value, _ := strings.Cut(l, ": "); {
		case key == "Zookeeper version", key == "Sent", strings.HasPrefix(key, "Latency"):
			l = key + ": different"
		case key == "Outstanding":
			l = key + ": " + idle(value)
		case key == "Received":
			l = key + ": " + n.count(value)
		case key == "Zxid":
			z, err := strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64)
			if err != nil {
				return err.Error()
			}
			l = key + ": " + n.zxid(z)
		}
		fmt.Fprintln(&s, l)
	}
	return s.String()
}

func (n *names) counters(answer string) string {
	values := make(map[string]string)
	for l := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(l), "\t")
		values[name] = value
	}
	values["zk_outstanding_requests"] = idle(values["zk_outstanding_requests"])
	values["zk_packets_received"] = n.count(values["zk_packets_received"])
	var s strings.Builder
	for _, name := range counted {
		fmt.Fprintf(&s, "%s %s\n", name, strings.TrimSuffix(values[name], ".0"))
	}
	return s.String()
}

// idle normalizes a number of outstanding requests. An idle real server was seen to count
// -1.
func idle(value string) string { return strings.Replace(value, "-1", "0", 1) }

// count writes a number of packets as the distance from the first one seen, because a
// server may have received requests before the script began.
func (n *names) count(value string) string {
	packets, err := strconv.Atoi(value)
	if err != nil {
		return err.Error()
	}
	if n.received == 0 {
		n.received = packets
	}
	return "first+" + strconv.Itoa(packets-n.received)
}
