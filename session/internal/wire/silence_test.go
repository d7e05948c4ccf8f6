package wire

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// TestWhatASessionDoesAboutASilentServer: it asks the other servers before its patience
// ends, and hangs up after that if one of them serves.
func TestWhatASessionDoesAboutASilentServer(t *testing.T) {
	const (
		T     = 10 * time.Second
		ms    = time.Millisecond
		never = -1
	)
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		took   time.Duration
		before []time.Duration // how long ago it hung up
		want   time.Duration   // how long a silence it tolerates
	}{
		"the first time":              {0, nil, T / 5},
		"beside quick writes":         {900 * ms, nil, T / 5},
		"where writes take long":      {1500 * ms, nil, 3 * time.Second},
		"where they take very long":   {T / 3, nil, never},
		"again":                       {0, []time.Duration{3 * time.Second}, 2 * T / 5},
		"again, much later":           {0, []time.Duration{10*T - 1}, 2 * T / 5},
		"again, when that is forgot":  {0, []time.Duration{10 * T}, T / 5},
		"again, and writes take long": {1500 * ms, []time.Duration{3 * time.Second}, 6 * time.Second},
		"again, and take longer":      {1700 * ms, []time.Duration{3 * time.Second}, never},
		"a third time":                {0, []time.Duration{3 * time.Second, 9 * time.Second}, never},
		"a third time, much later":    {0, []time.Duration{3 * time.Second, 10 * T}, 2 * T / 5},
	} {
		for _, others := range []Others{OthersUnknown, OthersAsked, OthersServe} {
			q := Silence{Timeout: T, Took: c.took, Others: others}
			for i, ago := range c.before {
				q.Before[i] = now.Add(-ago)
			}
			if move, _ := q.Next(now); move != MoveNone {
				t.Errorf("%s: with nothing owed the move is %d, want it left to the client", name, move)
			}
			for silent := time.Duration(0); silent <= 2*T; silent += 50 * ms {
				want, least, most := MoveWait, c.want-silent, c.want-silent
				switch {
				case c.want == never:
					want, least, most = MoveNone, 0, 0
				case others == OthersUnknown && silent >= c.want*3/4:
					want, least, most = MoveAsk, 0, max(0, c.want-silent)
				case others == OthersUnknown:
					least, most = c.want*3/4-silent, c.want*3/4-silent
				case silent < c.want:
				case others == OthersServe:
					want, least, most = MoveHangUp, 0, 0
				default:
					least, most = ms, T
				}
				q.Since = now.Add(-silent)
				if move, wait := q.Next(now); move != want || wait < least || wait > most {
					t.Fatalf("%s, others %d, silent for %v: move %d, and again in %v; want %d, and again in %v to %v",
						name, others, silent, move, wait, want, least, most)
				}
			}
		}
	}
}

func TestSinceWhenAServerOwesAnAnswer(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p, start := play(t, NewLink(Events{})), time.Now()
		want := func(when string, since time.Duration) {
			t.Helper()
			got := p.owing()
			expect(t, (since >= 0 || got.IsZero()) && (since < 0 || got.Sub(start) == since),
				"%s an answer is owed since %v, want since %v after the start", when, got.Sub(start), since)
		}
		const nothing = -1
		asks := func(xids ...int32) {
			for _, xid := range xids {
				go p.peer.recv()
				p.ask(requestFrame(xid, opcode.Delete))
			}
		}
		go func() {
			p.peer.handshake()
			time.Sleep(time.Second)
			p.peer.send(grantFrame(testTimeout, 7))
		}()
		p.ask(handshakeFrame(0))
		want("while the handshake is under way", nothing)
		p.receive(len(grantFrame(testTimeout, 7)))
		want("behind the handshake", nothing)
		asks(1)
		time.Sleep(time.Second)
		asks(2, xidPing)
		want("behind three requests", time.Second)
		time.Sleep(time.Second)
		p.hear(eventFrame("/a"))
		want("behind an event", time.Second)
		p.hear(replyFrame(1, 0))
		want("when the first is answered", 3*time.Second)
		time.Sleep(time.Second)
		long := replyFrame(2, 0, make([]byte, 100)...)
		p.hear(long[:50])
		want("when a part of the second answer has come", 4*time.Second)
		time.Sleep(time.Second)
		p.hear(long[50:])
		want("when only a ping is not answered", 5*time.Second)
		p.hear(replyFrame(xidPing, 0))
		want("when all is answered", nothing)
		asks(3)
		want("behind another one", 5*time.Second)
		time.Sleep(time.Second)
		asks(4, xidPing)
		time.Sleep(time.Second)
		p.hear(replyFrame(xidPing, 0))
		want("when a ping behind it is answered", 5*time.Second)
		p.hear(replyFrame(4, 0))
		want("when the request behind it is answered", 5*time.Second)
		eventstest.Check(t, p.Close())
		want("when the connection has ended", nothing)
	})
}

// TestWhatSettlesADebt of an earlier connection: an answer, or a pong if no request waits.
func TestWhatSettlesADebt(t *testing.T) {
	p := established(t, Events{})
	owes := func(want bool, when string) {
		t.Helper()
		eventstest.Equal(t, !p.link.Owing().IsZero(), want, "an answer is owed %s", when)
	}
	p.link.leaveDebt(time.Now())
	p.noteOut(requestFrame(1, opcode.Delete))
	p.noteOut(requestFrame(xidPing, opcode.Ping))
	p.noteIn(replyFrame(xidPing, 0))
	owes(true, "after a pong before the answer to a request")
	p.noteIn(replyFrame(1, 0))
	owes(false, "after the answer")
	p.link.leaveDebt(time.Now())
	p.noteOut(requestFrame(xidPing, opcode.Ping))
	p.noteIn(replyFrame(xidPing, 0))
	owes(false, "after a pong while no request waits")
}

// TestForHowLongARequestWaits: nine tenths of the timeout, and at least as long as it
// takes to read what has arrived.
func TestForHowLongARequestWaits(t *testing.T) {
	const T = 20 * time.Second
	for waited, want := range map[time.Duration]time.Duration{
		0: 18 * time.Second, 10 * time.Second: 8 * time.Second, 17 * time.Second: time.Second,
		18 * time.Second: time.Second, time.Hour: time.Second,
	} {
		equal(t, requestPatience(T, waited), want,
			"a request that has waited for %v waits for longer", waited)
	}
}

// TestARequestWaitsNoLongerWhateverElseArrives: before each event that it reads, the
// client sets a new deadline, but that does not give the request more time.
func TestARequestWaitsNoLongerWhateverElseArrives(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p := play(t, NewLink(Events{}))
		p.greet(0)
		go p.peer.recv()
		p.ask(requestFrame(1, opcode.Delete))
		began := time.Now()
		var sends sync.WaitGroup
		sends.Go(func() {
			for err := error(nil); err == nil; _, err = p.peer.Write(eventFrame("/a")) {
				time.Sleep(testTimeout / 40)
			}
		})
		for err, frame := error(nil), make([]byte, len(eventFrame("/a"))); err == nil; {
			eventstest.Must(t, p.SetReadDeadline(time.Now().Add(ClientPatience(testTimeout))))
			_, err = io.ReadFull(p, frame)
		}
		waited := time.Since(began)
		expect(t, waited >= MostPatience(testTimeout) && waited <= MostPatience(testTimeout)+testTimeout/LeastPatience,
			"the request waits for %v of a timeout of %v", waited, testTimeout)
		eventstest.Check(t, p.Close())
		sends.Wait()
	})
}
