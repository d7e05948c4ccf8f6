package wire

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// TestAnswersWaitForTheRequestOfTheirOwnConnection: a request for watches that an earlier
// connection has left lets no answer through.
func TestAnswersWaitForTheRequestOfTheirOwnConnection(t *testing.T) {
	const short, ms = 100, time.Millisecond
	// A connection that was lost before, with the length of its request for watches, and
	// whether an answer was read.
	type lost struct {
		request int
		read    bool
	}
	for name, test := range map[string]struct {
		before []lost
		want   []time.Duration // until the answer to each of several requests, a millisecond apart, can be read
	}{
		"nothing left":       {nil, []time.Duration{0}},
		"one may be left":    {[]lost{{}}, []time.Duration{ms, 0}},
		"it was not left":    {[]lost{{}}, []time.Duration{restoreMax}},
		"two may be left":    {[]lost{{}, {}}, []time.Duration{2 * ms, 0, 0}},
		"one of two went":    {[]lost{{}, {short, false}}, []time.Duration{ms, 0}},
		"a long one":         {[]lost{{longRequest, true}}, []time.Duration{ms, 0}},
		"a short one":        {[]lost{{short, true}}, []time.Duration{0}},
		"waited in vain":     {[]lost{{}, {0, true}}, []time.Duration{0}},
		"a short one unread": {[]lost{{short, false}}, []time.Duration{0}},
		"a long one unread":  {[]lost{{longRequest, false}}, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				l := NewLink(Events{})
				resume := func() *played {
					p := play(t, l)
					p.greet(7)
					return p
				}
				for _, b := range test.before {
					p := resume()
					switch {
					case b.request > 0:
						if p.watches(b.request); b.read {
							p.receive(4 + minReply)
						}
					case b.read: // a client without watches
						if took := p.hear(replyFrame(9, 0)); took != restoreMax {
							t.Errorf("the answer waited for %v, want %v", took, restoreMax)
						}
					}
					eventstest.Check(t, p.Close())
				}
				p := resume()
				go func() {
					for i := range test.want {
						if i > 0 {
							time.Sleep(ms)
						}
						p.watches(short)
					}
				}()
				for i, want := range test.want {
					if got := p.receive(4 + minReply); got != want {
						t.Errorf("answer %d was read after %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// TestWhenTheWatchesAreRestored: when the last request of a connection's own is answered.
// In the steps s is a short request and l is a long one, a is an answer to the oldest
// request and e is a refusal, and c is another connection. A is an answer with which all
// watches are restored.
func TestWhenTheWatchesAreRestored(t *testing.T) {
	for _, steps := range []string{
		"csA", "clasA", "clalasA", "cse", "clesA", "csAcsA", "csclasA", "ccsasA", "ccsasAsA", "ccssaA", "cslcsA", "ccsacsasA",
	} {
		var restored bool
		l := NewLink(Events{OnAnswered: func(a Answer) { restored = a.Restored }})
		var p *played
		xid, oldest := int32(0), int32(1)
		for i, step := range steps {
			switch step {
			case 'c':
				p = play(t, l)
				p.noteOut(handshakeFrame(7))
				p.noteIn(grantFrame(testTimeout, 7))
				oldest = xid + 1
			case 's', 'l':
				length := 100
				if step == 'l' {
					length = longRequest
				}
				xid++
				p.noteOut(requestFrame(xid, opcode.SetWatches, make([]byte, length-minRequest)...))
			default:
				code := zkerr.CodeNone
				if step == 'e' {
					code = zkerr.CodeNoAuth
				}
				p.noteIn(replyFrame(oldest, code))
				oldest++
				if want := step == 'A'; restored != want {
					t.Errorf("%s: after step %d the watches are restored: %v, want %v", steps, i, restored, want)
				}
			}
		}
	}
}
