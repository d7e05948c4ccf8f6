package zktest

import (
	"errors"
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

// player plays a file of the script. Each directive is a step of one client. Its result is what this client is sent up to the
// answer.
type player struct {
	tb            testing.TB
	host          host
	started       bool
	otherVersions bool // the file is not about the host's version: no step is taken
	clients       map[string]*scriptClient
	names         names
	steps         int
	granted       map[int64][]byte // the password of every session that a server has given
}

// scriptClient is one of the script's clients, with what it needs to reconnect.
type scriptClient struct {
	ticket
	line   *rawClient // nil before connect and after drop
	newest int64      // the newest zxid it has seen
	xid    int32
}

func newPlayer(tb testing.TB, h host) *player {
	tb.Helper()
	return &player{tb: tb, host: h, clients: make(map[string]*scriptClient), names: newNames(), granted: make(map[int64][]byte)}
}

// hangUp closes every connection.
func (p *player) hangUp() {
	for _, c := range p.clients {
		c.drop()
	}
}

func (c *scriptClient) drop() {
	if c.line != nil {
		_ = c.line.Close() // the server may have been first
		c.line = nil
	}
}

// step plays one directive.
func (p *player) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if d.Cmd == "server" {
		return p.begin(t, d)
	}
	if !p.started {
		d.Fatalf(t, "the first directive has to be server")
	}
	p.steps++
	if p.otherVersions {
		return d.Expected
	}
	var out strings.Builder
	if err := p.take(d, &out); err != nil {
		d.Fatalf(t, "%v\nso far:\n%s", err, out.String())
	}
	return out.String()
}

// begin starts the server, unless the file is about other versions.
func (p *player) begin(t *testing.T, d *datadriven.TestData) string {
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
	return ""
}

func (p *player) take(d *datadriven.TestData, out *strings.Builder) error {
	if d.Cmd == "word" {
		return p.word(d.CmdArgs[0].Key, out)
	}
	if len(d.CmdArgs) == 0 {
		return errors.New("a client and what it does, please")
	}
	c := p.clients[d.Cmd]
	if c == nil {
		c = &scriptClient{}
		p.clients[d.Cmd] = c
	}
	verb, a := d.CmdArgs[0].Key, arguments(d.CmdArgs[1:])
	switch verb {
	case "connect", "resume":
		return p.connect(c, verb, a, out)
	}
	if c.line == nil {
		return fmt.Errorf("%s is not connected", d.Cmd)
	}
	switch verb {
	case "drop":
		c.drop()
		return nil
	case "await":
		return p.await(c, a, out)
	case "reaped":
		return p.reaped(c, a, out)
	case "length":
		n, err := a.number("n", 0)
		if err != nil {
			return err
		}
		if _, err := c.line.Write(appendInt32(nil, int32(n))); err != nil {
			return err
		}
		return p.await(c, a, out)
	case "pipeline":
		lines := strings.Split(strings.TrimSpace(d.Input), "\n")
		p.steps += len(lines) - 1
		return p.requests(c, lines, out)
	}
	q, err := p.request(verb, a, d.Input)
	if err != nil {
		return err
	}
	return p.exchange(c, []scriptRequest{q}, out)
}

// connect makes a connection for c and shakes hands: for a new session, or to resume the session of c or of another client.
func (p *player) connect(c *scriptClient, verb string, a arguments, out *strings.Builder) error {
	timeout, err := a.number("timeout", 10000)
	if err != nil {
		return err
	}
	var asks ticket
	var newest int64
	if verb == "resume" {
		from := c
		if other, given := a.text("of"); given {
			from = p.clients[other]
		}
		asks, newest = from.ticket, from.newest
	}
	asks.timeout = int32(timeout)
	if v, given := a.text("password"); given {
		asks.password = append([]byte(v), make([]byte, passwordLength)...)[:passwordLength]
	}
	if _, given := a.text("future"); given {
		newest = 1 << 62
	}
	c.drop()
	nc, err := p.host.dial()
	if err != nil {
		return err
	}
	c.line = newRaw(p.tb, nc)
	b := greeting(newest, asks)
	if _, given := a.text("readonly"); given {
		b = appendBool(b, false)
	}
	if _, err := nc.Write(frame(b)); err != nil {
		return err
	}
	body, err := c.line.receive()
	if err != nil {
		c.drop()
		fmt.Fprintln(out, "connection closed")
		return nil //nolint:nilerr // the end of the connection is what the script shows
	}
	protocol, got, rest := decodeTicket(body)
	if rest.err != nil {
		return rest.err
	}
	name := "no session"
	if got.session != 0 {
		name = p.names.session(got.session)
		c.session = got.session
		p.granted[got.session] = slices.Clone(got.password)
	}
	c.password = got.password
	fmt.Fprintf(out, "protocol %d, %d ms, %s, %d bytes of password", protocol, got.timeout, name, len(got.password))
	if got.session != 0 && got.session == asks.session && !slices.Equal(got.password, asks.password) {
		fmt.Fprintf(out, " that are new")
	}
	if zero := slices.Equal(got.password, make([]byte, passwordLength)); zero != (got.session == 0) {
		fmt.Fprintf(out, " (all zero: %t)", zero)
	}
	if len(rest.buf) > 0 {
		fmt.Fprintf(out, ", read-only %v", rest.bool())
	}
	fmt.Fprintln(out)
	return nil
}

// await shows frames without a request, or the end of the connection. Sorted is for frames that a server sends in no particular
// order.
func (p *player) await(c *scriptClient, a arguments, out *strings.Builder) error {
	n, err := a.number("frames", 1)
	if err != nil {
		return err
	}
	var events []string
	for range n {
		body, err := c.line.receive()
		if err != nil {
			c.drop()
			events = append(events, "connection closed")
			break
		}
		r, err := decodeReply(body)
		if err != nil {
			return err
		}
		if r.xid != eventXid {
			return fmt.Errorf("an answer to %d, which was not asked", r.xid)
		}
		events = append(events, p.names.event(r))
	}
	if _, given := a.text("sorted"); given {
		slices.Sort(events)
	}
	for _, e := range events {
		fmt.Fprintln(out, e)
	}
	return nil
}

// reaped awaits that the server removes a node by itself. A busy real server begins to remove it once more before the first
// time is over. Each such vain attempt takes a zxid, which is not counted. They end before a sync that is sent when the node is
// gone.
func (p *player) reaped(c *scriptClient, a arguments, out *strings.Builder) error {
	if err := p.await(c, nil, out); err != nil {
		return err
	}
	parent := arguments{{Key: path.Dir(a[0].Key)}}
	for _, op := range []Op{OpSync, OpExists} {
		body, err := nodeBody(op, parent)
		if err != nil {
			return err
		}
		c.xid++
		if _, err := c.line.Write(frame(append(appendInt32(appendInt32(nil, c.xid), int32(op)), body...))); err != nil {
			return err
		}
	}
	for range 2 {
		body, err := c.line.receive()
		if err != nil {
			return err
		}
		r, err := decodeReply(body)
		if err != nil {
			return err
		}
		if r.xid != c.xid {
			continue
		}
		removed := decodeStat(r.body).pzxid
		number := r.zxid - removed
		if _, exact := p.host.(*double); exact && number != 0 {
			return fmt.Errorf("%d transactions after the one that removed %s, want none", number, a[0].Key)
		}
		p.names.vain = append(p.names.vain, vain{after: removed, number: number})
	}
	return nil
}

// requests sends several requests in one piece.
func (p *player) requests(c *scriptClient, lines []string, out *strings.Builder) error {
	var list []scriptRequest
	for _, l := range lines {
		verb, args, err := datadriven.ParseLine(l)
		if err != nil {
			return err
		}
		q, err := p.request(verb, args, "")
		if err != nil {
			return err
		}
		list = append(list, q)
	}
	return p.exchange(c, list, out)
}

// exchange sends requests and shows what comes until all are answered, in the order in which it comes.
func (p *player) exchange(c *scriptClient, list []scriptRequest, out *strings.Builder) error {
	var piece []byte
	waiting := make(map[int32]scriptRequest)
	for _, q := range list {
		xid := q.xid
		if xid == 0 {
			c.xid++
			xid = c.xid
		}
		waiting[xid] = q
		piece = append(piece, frame(append(appendInt32(appendInt32(nil, xid), int32(q.op)), q.body...))...)
	}
	_, _ = c.line.Write(piece) // a server that hangs up on what comes has closed the connection, which shows below
	for len(waiting) > 0 {
		body, err := c.line.receive()
		if err != nil {
			c.drop()
			fmt.Fprintln(out, "connection closed")
			return nil //nolint:nilerr // the end of the connection is what the script shows
		}
		r, err := decodeReply(body)
		if err != nil {
			return err
		}
		if r.xid == eventXid {
			fmt.Fprintln(out, p.names.event(r))
			continue
		}
		q, asked := waiting[r.xid]
		if !asked {
			return fmt.Errorf("an answer to %d, which was not asked", r.xid)
		}
		delete(waiting, r.xid)
		c.newest = max(c.newest, r.zxid)
		fmt.Fprint(out, p.names.answer(r, q, len(list) > 1))
	}
	return nil
}

// word asks a four-letter word on a connection of its own.
func (p *player) word(word string, out *strings.Builder) error {
	nc, err := p.host.dial()
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }() // read to its end
	if _, err := io.WriteString(nc, word); err != nil {
		return err
	}
	b, err := io.ReadAll(nc)
	if err != nil {
		return err
	}
	out.WriteString(p.names.status(word, string(b)))
	return nil
}

// eventXid stands in place of a request's number in a frame that answers no request.
const eventXid = -1

// arguments are those of one request in the script.
type arguments []datadriven.CmdArg

// text returns the value of an argument, and whether it is there.
func (a arguments) text(key string) (string, bool) {
	list, given := a.list(key)
	return strings.Join(list, ","), given
}

func (a arguments) list(key string) ([]string, bool) {
	for _, arg := range a {
		if arg.Key == key {
			return arg.Vals, true
		}
	}
	return nil, false
}

func (a arguments) number(key string, otherwise int64) (int64, error) {
	v, given := a.text(key)
	if !given {
		return otherwise, nil
	}
	return strconv.ParseInt(v, 10, 64)
}

// path is the first argument, or the one of that name in quotes.
func (a arguments) path() (string, error) {
	if v, given := a.text("path"); given {
		return strconv.Unquote(v)
	}
	if len(a) == 0 {
		return "", errors.New("a path, please")
	}
	return a[0].Key, nil
}
