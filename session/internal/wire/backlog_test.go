package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// TestAnswersWaitForTheRequestOfTheirOwnConnection: a request for watches that is left
// from an earlier connection lets no answer through.
func TestAnswersWaitForTheRequestOfTheirOwnConnection(t *testing.T) {
	const short, ms = 100, time.Millisecond
	// A lost connection, with the length of its request for watches, and whether an
	// answer was read.
	type lost struct {
		request int
		read    bool
	}
	type backlog struct {
		before []lost
		want   []time.Duration // until the answer to each of several requests, a millisecond apart, can be read
	}
	inBubbles(t, map[string]backlog{
		"nothing left":       {nil, []time.Duration{0}},
		"one may be left":    {[]lost{{}}, []time.Duration{ms, 0}},
		"it was not left":    {[]lost{{}}, []time.Duration{restoreMax}},
		"two may be left":    {[]lost{{}, {}}, []time.Duration{2 * ms, 0, 0}},
		"one of two went":    {[]lost{{}, {short, false}}, []time.Duration{ms, 0}},
		"a long one":         {[]lost{{watchesMax, true}}, []time.Duration{ms, 0}},
		"half as long":       {[]lost{{watchesMax / 2, true}}, []time.Duration{0}},
		"a short one":        {[]lost{{short, true}}, []time.Duration{0}},
		"waited in vain":     {[]lost{{}, {0, true}}, []time.Duration{0}},
		"a short one unread": {[]lost{{short, false}}, []time.Duration{0}},
		"a long one unread":  {[]lost{{watchesMax, false}}, []time.Duration{0}},
	}, func(t *testing.T, test backlog) {
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
				equal(t, p.hear(replyFrame(xidPing, 0)), restoreMax, "the answer waited for")
			}
			eventstest.Check(t, p.Close())
		}
		p := resume()
		go func() {
			for i := range test.want {
				time.Sleep(time.Duration(min(i, 1)) * ms)
				p.watches(short)
			}
		}()
		for i, want := range test.want {
			equal(t, p.receive(4+minReply), want, "answer %d was read after", i)
		}
	})
}

// TestWhenTheWatchesAreRestored: when the last of a connection's own requests is
// answered. In the steps, s is a request of the greatest length that is certainly the
// last, and l is longer by a byte. a answers the oldest request, e refuses it, and c is
// another connection. A is an answer with which all watches are restored. The paths are
// read on the first connection.
func TestWhenTheWatchesAreRestored(t *testing.T) {
	for _, op := range []int32{opcode.GetData, opcode.Exists, opcode.GetChildren2} {
		for _, steps := range []string{
			"csA", "clasA", "clalasA", "cse", "csAcsA", "csclasA", "ccsasA", "ccsasAsA", "ccssaA", "cslcsA", "ccsacsasA",
			"clesa", "clecsA", "csecsA", "ccsesa", "ccsase", "ccssea",
		} {
			restoredAfter(t, op, steps)
		}
	}
}

func restoredAfter(t *testing.T, read int32, steps string) {
	const longest, last = "/the/longest", watchesMax - lengthSize - len("/the/longest")
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
			if i == 0 {
				p.noteOut(requestFrame(1000, read, append(textOf(longest), 1)...))
				p.noteOut(requestFrame(1001, read, append(textOf("/a"), 1)...))
			}
			oldest = xid + 1
		case 's', 'l':
			length := last - minRequest
			if step == 'l' {
				length++
			}
			xid++
			p.noteOut(requestFrame(xid, opcode.SetWatches, make([]byte, length)...))
		default:
			code := zkerr.CodeNone
			if step == 'e' {
				code = zkerr.CodeNoAuth
			}
			p.noteIn(replyFrame(oldest, code))
			oldest++
			equal(t, restored, step == 'A', "%s of %s: restored after step %d", steps, opcode.Name(read), i)
		}
	}
}

// TestTheClientFillsItsRequestsForWatches: the client begins another request when the
// next path does not fit. 28 bytes and 724 paths of 177 bytes, including their lengths,
// are 128 KiB.
func TestTheClientFillsItsRequestsForWatches(t *testing.T) {
	const full, length = 724, 177
	for paths, want := range map[int][]Answer{
		1:            {{Restored: true}},
		full/2 + 1:   {{Restored: true}},
		full - 1:     {{Restored: true}},
		full:         {{More: true}}, // not known to be the last
		full + 1:     {{More: true}, {Restored: true}},
		2*full + 100: {{More: true}, {More: true}, {Restored: true}},
	} {
		var mu sync.Mutex
		var got []Answer
		var parts []bool // of the requests for watches: it is a part before the last
		f := &fakeServer{serve: func(n int, c fakeConn) {
			c.grant(testTimeout, 7)
			for answered := 0; n > 1 || answered < paths; answered++ {
				request := c.recv()
				if request == nil {
					return
				}
				var body []byte
				if int32At(request, 4) == opcode.Exists {
					body = stat
				}
				if int32At(request, 4) == opcode.SetWatches {
					mu.Lock()
					parts = append(parts, int32At(request, 0) < 0)
					mu.Unlock()
				}
				c.send(replyFrame(int32At(request, 0), 0, body...))
			}
		}}
		withRig(t, Events{OnAnswered: func(a Answer) {
			if a.Op == opcode.SetWatches {
				mu.Lock()
				defer mu.Unlock()
				answer, part := Answer{Restored: a.Restored, More: a.More}, parts[0]
				if parts = parts[1:]; !part {
					got = append(got, answer)
				} else if answer != (Answer{More: true}) {
					t.Errorf("a part before the last was answered by %+v, want More", answer)
				}
			}
		}}, f, func(r *rig) {
			for i := range paths {
				_, _, _, err := r.conn.ExistsW(fmt.Sprintf("/%0*d", length-1, i))
				eventstest.Must(t, err)
			}
			r.await(zk.StateHasSession, zk.StateDisconnected, zk.StateHasSession)
			synctest.Wait()
		})
		expect(t, slices.Equal(got, want),
			"with %d paths the requests for watches are answered by %+v, want %+v", paths, got, want)
	}
}

// TestSmallServersReadRequestsForWatches: the client asks for up to 128 KiB of paths at
// once. No frame is longer than 16 KiB, and the frames have all paths, with the kinds of
// their watches.
func TestSmallServersReadRequestsForWatches(t *testing.T) {
	const most = 16 << 10
	const paths = 600 // so few that the client makes one request: its next one would race with the answer
	name := func(kind string, i int) string {
		return fmt.Sprintf("/a/path/of/a/usual/length/with-%s-%010d", kind, i)
	}
	asked := map[string]int{}
	want := map[string]int{}
	armed := make(chan struct{})
	f := &fakeServer{serve: func(n int, c fakeConn) {
		c.grant(testTimeout, 7)
		if n == 1 {
			go func() {
				<-armed
				_ = c.Close()
			}()
		}
		for request := c.recv(); request != nil; request = c.recv() {
			code, body := zkerr.CodeNone, stat
			switch op := int32At(request, 4); {
			case op == opcode.SetWatches:
				expect(t, len(request) <= most, "a request for watches of %d bytes, want %d at most", len(request), most)
				body = nil
				r := rest(request[minRequest+8:])
				for _, kind := range []string{"data", "exist", "child"} {
					for n := r.int32(); n > 0; n-- {
						path := r
						r.text()
						asked[kind+string(path[lengthSize:len(path)-len(r)])]++
					}
				}
				expect(t, len(r) == 0, "%d bytes after the paths, want none", len(r))
			case op == opcode.GetChildren2:
				body = append(make([]byte, 4), stat...)
			case strings.Contains(string(request), "exist"):
				code, body = zkerr.CodeNoNode, nil
			}
			c.send(replyFrame(int32At(request, 0), code, body...))
		}
	}}
	withRig(t, Events{}, f, func(r *rig) {
		for i := range paths {
			_, _, _, err := r.conn.ExistsW(name("data", i))
			eventstest.Must(t, err)
			_, _, _, err = r.conn.ExistsW(name("exist", i))
			eventstest.Must(t, err)
			_, _, _, err = r.conn.ChildrenW(name("child", i))
			eventstest.Must(t, err)
			for _, kind := range []string{"data", "exist", "child"} {
				want[kind+name(kind, i)] = 1
			}
		}
		close(armed)
		r.await(zk.StateHasSession, zk.StateDisconnected, zk.StateHasSession)
		synctest.Wait()
		expect(t, maps.Equal(asked, want), "%d watches were asked for, want each of %d once", len(asked), len(want))
	})
}

// TestARefusedPartRestoresNothing: a server may refuse any part of a request for watches.
// The first refusal is reported as such: by then, all watches have to be armed again.
func TestARefusedPartRestoresNothing(t *testing.T) {
	for _, refused := range [][]int{{}, {0}, {1}, {2}, {0, 1}} {
		var got []Answer
		l := NewLink(Events{OnAnswered: func(a Answer) {
			if a.Op == opcode.SetWatches {
				got = append(got, Answer{Err: a.Err, Restored: a.Restored, More: a.More, Refused: a.Refused})
			}
		}})
		p := play(t, l)
		p.noteOut(handshakeFrame(7))
		p.noteIn(grantFrame(testTimeout, 7))
		var body []byte
		for _, n := range []uint32{0, 0, 2 * partMax / 8, 0, 0} {
			if body = binary.BigEndian.AppendUint32(body, n); n > 0 {
				body = append(body, bytes.Repeat(textOf("/abc"), int(n))...)
			}
		}
		p.noteOut(requestFrame(5, opcode.SetWatches, body...))
		var want []Answer
		for i, xid := range []int32{firstPart, firstPart - 1, 5} {
			a := Answer{Restored: i == 2 && len(refused) == 0, More: i < 2}
			if slices.Contains(refused, i) {
				a.Err, a.Refused = zkerr.CodeNoAuth, i == refused[0]
			}
			want = append(want, a)
			p.noteIn(replyFrame(xid, a.Err))
		}
		expect(t, slices.Equal(got, want), "parts %v refused: %+v, want %+v", refused, got, want)
		expect(t, p.owing().IsZero(), "parts %v refused: an answer is owed, want none", refused)
	}
}
