package zktest

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// player plays a file of the script. Each directive is a step of one client. Its result
// is what this client receives up to the answer.
type player struct {
	tb            testing.TB
	host          host
	at            *datadriven.TestData // the current step
	out           strings.Builder      // its result
	started       bool
	otherVersions bool // the file does not apply to the host's version, so its steps are skipped
	clients       map[string]*scriptClient
	names         names
	steps         int
	granted       map[int64][]byte // the passwords of all sessions that a server has granted
}

// scriptClient is one of the script's clients, with what it needs in order to reconnect.
type scriptClient struct {
	ticket
	line   *rawClient // nil before connect and after drop
	newest int64      // the newest zxid that it has seen
}

// must ends the test at the current step.
func (p *player) must(err error) {
	p.tb.Helper()
	if err != nil {
		p.fail("%v", err)
	}
}

func (p *player) fail(format string, args ...any) {
	p.tb.Helper()
	p.at.Fatalf(p.tb, "%s\nso far:\n%s", fmt.Sprintf(format, args...), p.out.String())
}

func (p *player) hangUp() {
	for _, c := range p.clients {
		c.drop()
	}
}

func (c *scriptClient) drop() {
	if c.line != nil {
		_ = c.line.Close() // the server may have closed it first
		c.line = nil
	}
}

func (p *player) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	p.at = d
	p.out.Reset()
	if d.Cmd == "server" {
		p.begin(t, d)
		return ""
	}
	if !p.started {
		p.fail("the first directive has to be server")
	}
	p.steps++
	if p.otherVersions {
		return d.Expected
	}
	p.take(d)
	return p.out.String()
}

// begin starts the server, unless the file is about other versions.
func (p *player) begin(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	var features []string
	var since, before []string
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "since":
			since = a.Vals
		case "before":
			before = a.Vals
		default:
			features = append(features, a.Key)
		}
	}
	version := p.host.start(t, features)
	p.otherVersions = !ensemble.Since(version, since...) || before != nil && ensemble.Since(version, before...)
	p.names.stamped = ensemble.Since(version, "3.9.0")
	p.started = true
}

func (p *player) take(d *datadriven.TestData) {
	if d.Cmd == "word" {
		p.word(d.CmdArgs[0].Key)
		return
	}
	if len(d.CmdArgs) == 0 {
		p.fail("a client and what it does, please")
	}
	c := p.clients[d.Cmd]
	if c == nil {
		c = &scriptClient{}
		p.clients[d.Cmd] = c
	}
	verb, a := d.CmdArgs[0].Key, arguments(d.CmdArgs[1:])
	if c.line == nil && verb != "connect" && verb != "resume" {
		p.fail("%s is not connected", d.Cmd)
	}
	switch verb {
	case "connect", "resume":
		p.connect(c, verb, a)
	case "drop":
		c.drop()
	case "await":
		p.await(c, a)
	case "reaped":
		p.reaped(c, a)
	case "length":
		c.line.write(appendInt32(nil, int32(p.number(a, "n", 0))))
		p.await(c, a)
	case "pipeline":
		list := p.requests(d.Input)
		p.steps += len(list) - 1
		p.exchange(c, list)
	default:
		p.exchange(c, []scriptRequest{p.request(verb, a, d.Input)})
	}
}

// connect makes a connection for c, with a handshake for a new session, or to resume the
// session of c or of another client.
func (p *player) connect(c *scriptClient, verb string, a arguments) {
	var asks ticket
	var newest int64
	if verb == "resume" {
		from := c
		if other, given := a.text("of"); given {
			from = p.clients[other]
		}
		asks, newest = from.ticket, from.newest
	}
	asks.timeout = int32(p.number(a, "timeout", 10000))
	if v, given := a.text("password"); given {
		asks.password = append([]byte(v), make([]byte, passwordLength)...)[:passwordLength]
	}
	if _, given := a.text("future"); given {
		newest = 1 << 62
	}
	c.drop()
	nc, err := p.host.dial()
	p.must(err)
	c.line = newRaw(p.tb, nc)
	b := greeting(newest, asks)
	if _, given := a.text("readonly"); given {
		b = appendBool(b, false)
	}
	c.line.write(frame(b))
	body, err := c.line.receive()
	if err != nil {
		p.closed(c)
		return
	}
	protocol, got, rest := decodeTicket(body)
	p.must(rest.err)
	name := "no session"
	if got.session != 0 {
		name = p.names.session(got.session)
		c.session = got.session
		p.granted[got.session] = slices.Clone(got.password)
	}
	c.password = got.password
	length := len(got.password)
	fmt.Fprintf(&p.out, "protocol %d, %d ms, %s, %d bytes of password", protocol, got.timeout, name, length)
	if got.session != 0 && got.session == asks.session && !slices.Equal(got.password, asks.password) {
		fmt.Fprintf(&p.out, " that are new")
	}
	if zero := slices.Equal(got.password, make([]byte, passwordLength)); zero != (got.session == 0) {
		fmt.Fprintf(&p.out, " (all zero: %t)", zero)
	}
	if len(rest.buf) > 0 {
		fmt.Fprintf(&p.out, ", read-only %v", rest.bool())
	}
	fmt.Fprintln(&p.out)
}

func (p *player) closed(c *scriptClient) {
	c.drop()
	fmt.Fprintln(&p.out, "connection closed")
}

// next returns the client's next frame, or false at the end of its connection.
func (p *player) next(c *scriptClient) (r reply, ok bool) {
	body, err := c.line.receive()
	if err != nil {
		return reply{}, false
	}
	r, err = decodeReply(body)
	p.must(err)
	return r, true
}

// await shows frames that answer no request, or the end of the connection. Frames that a
// server sends in no particular order can be sorted.
func (p *player) await(c *scriptClient, a arguments) {
	var events []string
	ended := false
	for n := p.number(a, "frames", 1); n > 0 && !ended; n-- {
		r, ok := p.next(c)
		switch {
		case !ok:
			ended = true
		case r.xid != eventXid:
			p.fail("an answer to %d, which was not asked", r.xid)
		default:
			events = append(events, p.names.event(r)+"\n")
		}
	}
	if _, given := a.text("sorted"); given {
		slices.Sort(events)
	}
	p.out.WriteString(strings.Join(events, ""))
	if ended {
		p.closed(c)
	}
}

// reaped waits until the server removes a node by itself. A busy real server begins to
// remove it again before the first removal is complete. Each such vain attempt uses a
// zxid, which is not counted. They end before a sync that is sent when the node is gone.
func (p *player) reaped(c *scriptClient, a arguments) {
	p.await(c, nil)
	parent := arguments{{Key: path.Dir(a[0].Key)}}
	for _, op := range []Op{OpSync, OpExists} {
		c.line.request(op, p.nodeBody(op, parent))
	}
	c.line.next()
	r := c.line.next()
	removed := decodeStat(r.body).pzxid
	number := r.zxid - removed
	if _, exact := p.host.(*double); exact && number != 0 {
		p.fail("%d transactions after the one that removed %s, want none", number, a[0].Key)
	}
	p.names.vain = append(p.names.vain, vain{after: removed, number: number})
}

// exchange sends requests in one write, and shows what arrives until all are answered, in
// order of arrival.
func (p *player) exchange(c *scriptClient, list []scriptRequest) {
	var piece []byte
	waiting := make(map[int32]scriptRequest)
	for _, q := range list {
		xid := q.xid
		if xid == 0 {
			c.line.xid++
			xid = c.line.xid
		}
		waiting[xid] = q
		piece = append(piece, requestFrame(xid, q.op, q.body)...)
	}
	_, _ = c.line.Write(piece) // if the server hangs up, that shows below
	for len(waiting) > 0 {
		r, ok := p.next(c)
		if !ok {
			p.closed(c)
			return
		}
		if r.xid == eventXid {
			fmt.Fprintln(&p.out, p.names.event(r))
			continue
		}
		q, asked := waiting[r.xid]
		if !asked {
			p.fail("an answer to %d, which was not asked", r.xid)
		}
		delete(waiting, r.xid)
		c.newest = max(c.newest, r.zxid)
		p.out.WriteString(p.names.answer(r, q, len(list) > 1))
	}
}

func (p *player) word(word string) {
	nc, err := p.host.dial()
	p.must(err)
	defer func() { _ = nc.Close() }() // it was read to its end
	_, err = io.WriteString(nc, word)
	p.must(err)
	b, err := io.ReadAll(nc)
	p.must(err)
	p.out.WriteString(p.names.status(word, string(b)))
}

// eventXid takes the place of a request's number in a frame that answers no request.
const eventXid = -1

type arguments []datadriven.CmdArg

func (a arguments) text(key string) (string, bool) {
	list, given := a.list(key)
	return strings.Join(list, ","), given
}

func (a arguments) list(key string) ([]string, bool) {
	i := slices.IndexFunc(a, func(arg datadriven.CmdArg) bool { return arg.Key == key })
	if i < 0 {
		return nil, false
	}
	return a[i].Vals, true
}

func (p *player) number(a arguments, key string, otherwise int64) int64 {
	v, given := a.text(key)
	if !given {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	p.must(err)
	return n
}

// path returns the first argument, or the quoted argument path.
func (p *player) path(a arguments) string {
	if v, given := a.text("path"); given {
		unquoted, err := strconv.Unquote(v)
		p.must(err)
		return unquoted
	}
	if len(a) == 0 {
		p.fail("a path, please")
	}
	return a[0].Key
}
