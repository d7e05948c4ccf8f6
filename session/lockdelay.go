package session

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about what a record says of the lock-delay; recipes/lockdelay.go says what
// that is. Times are the servers', by their leader's clock: a mark's is that of the write
// that has made it.

// MaxLockDelay is the longest lock-delay, as in Consul. A longer one in a record is
// reduced to this.
const MaxLockDelay = time.Minute

// lockDelay is what a record says of it.
type lockDelay struct {
	delay   time.Duration
	marked  bool
	since   int64  // when it was marked, in milliseconds since 1970; 0: by the latest write
	taken   string // the name of the node that has taken the record over
	takenBy int64  // the zxid that created that one
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
		since, _ := strconv.ParseInt(value, 10, 64) // of a mark without a time it is that of the write
		d.since = max(since, 0)
	case "taken":
		if token, node, ok := strings.Cut(value, " "); ok && node != "" {
			d.takenBy, _ = strconv.ParseInt(strings.TrimPrefix(token, "0x"), 16, 64)
			d.taken = node
		}
	}
}

// delayBehind is the delay that a record causes: the longer one of the record's and the
// seat's own. Exception: in the place of a writer that holds, and has asked for none, no
// reader waits.
func (t *Seat) delayBehind(h holding) time.Duration {
	if t.in != nil {
		return h.delay
	}
	return max(h.delay, t.delay)
}

// MarkRoom is how many bytes a record leaves in a request for the mark of a lock-delay,
// and for the rest of that request.
const MarkRoom = 2 << 10

// setStart uses the time of the latest write if the mark has no time, or one in the
// future: then the servers' clock was set back, and the delay must end.
func (d *lockDelay) setStart(mtime int64) {
	if d.marked && (d.since == 0 || d.since > mtime) {
		d.since = mtime
	}
}

// marking is the record with a mark. A mark that there was keeps its time.
func (h holding) marking() []byte {
	h.marked = true
	return h.bytes()
}

// takingOver is the record of a holder that has crashed, with the own node as the next
// holder.
func (t *Seat) takingOver(h holding, own string) []byte {
	h.lockDelay = lockDelay{delay: max(h.delay, t.delay), taken: path.Base(own), takenBy: t.token(own)}
	return h.bytes()
}

// delay notifies a seat when its delay is over.
func (s *Session) delay(seat *Seat, pause recipes.Pause) {
	s.stopDelay(seat)
	over := func() {
		s.stopDelay(seat)
		s.tell(seat, recipes.Paused{Epoch: pause.Epoch}, nil)
	}
	s.delays[seat] = time.AfterFunc(pause.For, func() { s.loop.Post(over) })
}

// stopDelay stops the timer of a seat's lock-delay.
func (s *Session) stopDelay(seat *Seat) {
	if timer, ok := s.delays[seat]; ok {
		timer.Stop()
		delete(s.delays, seat)
	}
}
