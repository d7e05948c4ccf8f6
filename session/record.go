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

// This file is about the record of a lock that reports crashes; see recipes/crash.go. The
// record is next to the lock's directory, not in it, because go-zookeeper's lock fails on
// a child that is not a contender. It is not in the directory's data either, because each
// contender that joins overwrites them.
//
// The record is read in a separate request, after the transaction that found it. It is
// not replaced in between: only a holder that releases removes it, and only if the
// holder's node exists. While our node is first, the only such holder is a writer whose
// place our reader has taken. If that writer's record is gone by then, it counts as no
// record.

// RecordSuffix follows the lock's path in the path of its record.
const RecordSuffix = ".holder"

// recordMagic is the first line of a record. Lines with a key and a value follow, then an
// empty line, then the holder's data.
const recordMagic = "zkgrant holder\n"

// ErrRecord reports a node at the path of a lock's record that is not a record.
var ErrRecord = errors.New("zkgrant: not a crash record")

// holding is the content of a record. Its node is only a name, because the reader may
// have another chroot.
type holding struct {
	node  string
	token int64
	since time.Time
	data  []byte

	lockDelay
}

func (h holding) bytes() []byte {
	head := fmt.Appendf(nil, "%snode %s\ntoken 0x%x\nsince %s\n", recordMagic, h.node, h.token,
		h.since.UTC().Format(time.RFC3339Nano))
	return append(append(h.lockDelay.append(head), '\n'), h.data...)
}

// parseHolding parses a record. It ignores unknown lines, which may be from a newer
// version. Data that do not name a node are no record.
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
			// Users of the record may write it as JSON, which takes neither every year nor
			// every zone that Parse does.
			since, err := time.Parse(time.RFC3339Nano, value)
			if since = since.UTC(); err == nil && since.Year() >= 0 && since.Year() < 10_000 {
				h.since = since
			}
		default:
			h.lockDelay.parse(key, value)
		}
	}
	if len(rest) > 0 {
		h.data = bytes.Clone(rest)
	}
	return h, isName(h.node)
}

// isName reports whether the text may be the name of a node. Any program may have written
// the record, and the text becomes part of a path that is read. A server hangs up at one
// that is too long.
func isName(text string) bool {
	const longest = 1 << 10
	return text != "" && len(text) <= longest && !strings.Contains(text, "/") &&
		ValidatePath("/"+text) == nil
}

// ParseRecord parses a record for an observer. It returns the name of the holder's node,
// and since when it has held the lock.
func ParseRecord(data []byte) (node string, since time.Time, ok bool) {
	h, ok := parseHolding(data)
	return h.node, h.since, ok
}

// recordPath returns the path of the record of the seat's lock.
func (t *Seat) recordPath() string { return t.dir + RecordSuffix }

// record returns the record that names the seat's node as the holder.
func (t *Seat) record(own string) []byte {
	h := holding{node: path.Base(own), token: t.token(own), since: time.Now(), data: t.data}
	h.delay = t.delay
	return h.bytes()
}

// readRecord reads the record that a claim has found, and returns its meaning.
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
		Node: path.Join(strings.TrimPrefix(t.dir, t.session.chroot), h.node), Data: h.data, Token: h.token,
		Since: h.since,
	})
	if next.Then != recipes.ThenTell && !found.Gone && len(found.Mark)+2*len(node)+MarkRoom/2 > MaxRequest {
		return m, fmt.Errorf("%w: the record %s has %d bytes and no room for its lock-delay",
			ErrTooLarge, node, len(data))
	}
	return next, nil
}

// The part of a record about the lock-delay; see recipes/lockdelay.go. Times are by the
// clock of the servers' leader. The time of a mark is that of the write that made it.

// MaxLockDelay is the longest lock-delay, as in Consul. A longer one in a record counts
// as this long.
const MaxLockDelay = time.Minute

// lockDelay is the part of a record about the lock-delay.
type lockDelay struct {
	delay   time.Duration
	marked  bool
	since   int64  // when it was marked, in milliseconds since 1970; 0: at the latest write
	taken   string // the name of the node that has taken over the record
	takenBy int64  // the zxid that created that node
}

func (d *lockDelay) append(head []byte) []byte {
	if d.delay > 0 {
		head = fmt.Appendf(head, "delay %v\n", d.delay)
	}
	switch {
	case d.marked && d.since == 0:
		head = append(head, "marked\n"...)
	case d.marked:
		head = fmt.Appendf(head, "marked %d\n", d.since)
	}
	if d.taken != "" {
		head = fmt.Appendf(head, "taken 0x%x %s\n", d.takenBy, d.taken)
	}
	return head
}

func (d *lockDelay) parse(key, value string) {
	switch key {
	case "delay":
		if delay, err := time.ParseDuration(value); err == nil {
			d.delay = min(max(delay, 0), MaxLockDelay)
		}
	case "marked":
		d.marked = true
		since, _ := strconv.ParseInt(value, 10, 64) // 0 for a mark without a time
		d.since = max(since, 0)
	case "taken":
		if token, node, ok := strings.Cut(value, " "); ok && node != "" {
			d.takenBy, _ = strconv.ParseInt(strings.TrimPrefix(token, "0x"), 16, 64)
			d.taken = node
		}
	}
}

// delayBehind returns the lock-delay that a record imposes: the longer of the record's
// and the seat's own. For a reader in a writer's place, only the record's counts: if the
// writer asked for no delay, its reader does not wait.
func (t *Seat) delayBehind(h holding) time.Duration {
	if t.in != nil {
		return h.delay
	}
	return max(h.delay, t.delay)
}

// MarkRoom is how many bytes of a request a record must leave free for the mark of a
// lock-delay and for the other parts of the request.
const MarkRoom = 2 << 10

// setStart uses the time of the latest write if the mark has no time, or one in the
// future. In that case the servers' clock was set back, and the delay must still end.
func (d *lockDelay) setStart(mtime int64) {
	if d.marked && (d.since == 0 || d.since > mtime) {
		d.since = mtime
	}
}

// marking returns the record with a mark. An existing mark keeps its time.
func (h holding) marking() []byte {
	h.marked = true
	return h.bytes()
}

// takingOver returns the record of a crashed holder, taken over by the seat's node.
func (t *Seat) takingOver(h holding, own string) []byte {
	h.lockDelay = lockDelay{delay: max(h.delay, t.delay), taken: path.Base(own), takenBy: t.token(own)}
	return h.bytes()
}

// stopDelay stops the timer of a seat's latest lock-delay.
func (s *Session) stopDelay(seat *Seat) {
	if timer, ok := s.delays[seat]; ok {
		timer.Stop()
		delete(s.delays, seat)
	}
}
