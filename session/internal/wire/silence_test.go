package wire

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

func TestWhenASessionHangsUp(t *testing.T) {
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
		q := Silence{Timeout: T, Took: c.took}
		for i, ago := range c.before {
			q.Before[i] = now.Add(-ago)
		}
		if wait, ok := q.Left(now); ok {
			t.Errorf("%s: with nothing owed it looks again after %v, want it left to the client", name, wait)
		}
		for _, silent := range []time.Duration{0, T / 10, T / 5, 2 * T / 5, T / 2, 2 * T / 3, T, 20 * T} {
			q.Since = now.Add(-silent)
			wait, ok := q.Left(now)
			if ok != (c.want != never) || ok && wait != c.want-silent {
				t.Errorf("%s: after a silence of %v: wait %v, %v; want it to tolerate %v", name, silent, wait, ok, c.want)
			}
		}
	}
}

// Whatever the servers do, a session hangs up at most twice in ten timeouts, and once on servers that all answer alike.
func TestHowOftenASessionHangsUp(t *testing.T) {
	const T = 10 * time.Second
	for part := range 100 {
		takes := T * time.Duration(part) / 100 // every write, on every server
		q, now, hangUps := Silence{Timeout: T}, time.Unix(1000, 0), 0
		for end := now.Add(100 * T); now.Before(end); {
			q.Since = now
			wait, ok := q.Left(now)
			if !ok || takes <= wait { // it is answered, or the client hangs up
				now = now.Add(min(takes, ClientPatience(T)) + time.Millisecond)
				if takes < ClientPatience(T) {
					q.Took = takes
				}
				continue
			}
			now = now.Add(wait)
			q.Before = [2]time.Time{now, q.Before[0]}
			hangUps++
		}
		most := 20
		switch {
		case takes <= T/5:
			most = 0
		case takes <= 2*T/5:
			most = 1
		case takes < ClientPatience(T):
			most = 2
		}
		if hangUps > most {
			t.Errorf("where each write takes %v a session hangs up %d times in 100 timeouts, want %d at most", takes, hangUps, most)
		}
	}
}

func TestSinceWhenAServerOwesAnAnswer(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		near, far := net.Pipe()
		w, err := newWire(near, near, NewLink(Events{}), time.Now().Add(testTimeout), func(error) {})
		eventstest.Must(t, err)
		peer := fakeConn{far}
		r := &resumption{T: t, wire: w, peer: peer}
		start := time.Now()
		want := func(when string, since time.Duration) {
			t.Helper()
			got := w.owing()
			if since < 0 && !got.IsZero() || since >= 0 && got.Sub(start) != since {
				t.Errorf("%s an answer is owed since %v, want since %v after the start", when, got.Sub(start), since)
			}
		}
		const nothing = -1
		go func() {
			peer.handshake()
			time.Sleep(time.Second)
			peer.grant(testTimeout, 7)
		}()
		r.write(make([]byte, 44))
		want("while the handshake is under way", nothing)
		r.read(len(frameOf(grantBody(testTimeout, 7))))
		want("behind the handshake", nothing)

		request := func(xid int32) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(xid)), uint32(opcode.Multi))
		}
		ask := func(xid int32) {
			go peer.recv()
			r.write(request(xid))
		}
		ask(1)
		time.Sleep(time.Second)
		ask(2)
		ask(xidPing)
		want("behind three requests", time.Second)
		time.Sleep(time.Second)
		go peer.reply(request(xidEvent), 0)
		r.read(4 + minReply)
		want("behind an event", time.Second)
		go peer.reply(request(1), 0)
		r.read(4 + minReply)
		want("when the first is answered", 3*time.Second)
		time.Sleep(time.Second)
		long := frameOf(append(append(request(2)[:4:4], make([]byte, 12)...), make([]byte, 100)...))
		go func() { _, _ = peer.Write(long[:50]) }()
		r.read(50)
		want("when a part of the second answer has come", 4*time.Second)
		time.Sleep(time.Second)
		go func() { _, _ = peer.Write(long[50:]) }()
		r.read(len(long) - 50)
		want("when only a ping is not answered", 5*time.Second)
		go peer.reply(request(xidPing), 0)
		r.read(4 + minReply)
		want("when all is answered", nothing)
		ask(3)
		want("behind another one", 5*time.Second)
		time.Sleep(time.Second)
		ask(4)
		ask(xidPing)
		time.Sleep(time.Second)
		go peer.reply(request(xidPing), 0)
		r.read(4 + minReply)
		want("when a ping behind it is answered", 5*time.Second)
		go peer.reply(request(4), 0)
		r.read(4 + minReply)
		want("when the request behind it is answered", 5*time.Second)
		r.end()
		want("when the connection has ended", nothing)
	})
}

// TestForHowLongARequestWaits: nine tenths of the timeout, and at least as long as it takes to read what is there.
func TestForHowLongARequestWaits(t *testing.T) {
	const T = 20 * time.Second
	for waited, want := range map[time.Duration]time.Duration{
		0: 18 * time.Second, 10 * time.Second: 8 * time.Second, 17 * time.Second: time.Second, 18 * time.Second: time.Second, time.Hour: time.Second,
	} {
		if got := requestPatience(T, waited); got != want {
			t.Errorf("a request that has waited for %v waits for %v longer, want %v", waited, got, want)
		}
	}
}

// TestWhatASessionDoesAboutASilentServer: it asks the other ones before its patience ends, and hangs up behind that if one of them serves.
func TestWhatASessionDoesAboutASilentServer(t *testing.T) {
	const T, ms = 10 * time.Second, time.Millisecond
	now := time.Unix(1000, 0)
	for _, took := range []time.Duration{0, 900 * ms, 1500 * ms, T / 3} {
		for _, hungUp := range []bool{false, true} {
			for _, others := range []Others{OthersUnknown, OthersAsked, OthersServe} {
				for silent := -ms; silent <= T; silent += 50 * ms {
					q := Silence{Timeout: T, Took: took, Others: others}
					patience := max(T/5, 2*took)
					if hungUp {
						q.Before[0] = now.Add(-T)
						patience *= 2
					}
					if silent >= 0 {
						q.Since = now.Add(-silent)
					}
					want, least, most := MoveNone, time.Duration(0), time.Duration(0)
					switch {
					case silent < 0 || patience >= ClientPatience(T):
					case others == OthersUnknown && silent >= patience*3/4:
						want, most = MoveAsk, patience
					case others == OthersUnknown:
						want, least, most = MoveWait, patience*3/4-silent, patience*3/4-silent
					case silent < patience:
						want, least, most = MoveWait, patience-silent, patience-silent
					case others == OthersServe:
						want = MoveHangUp
					default:
						want, least, most = MoveWait, ms, T
					}
					if move, wait := q.Next(now); move != want || wait < least || wait > most {
						t.Fatalf("took %v, hung up before: %v, others %d, silent for %v: move %d, and again in %v; want %d, and again in %v to %v",
							took, hungUp, others, silent, move, wait, want, least, most)
					}
				}
			}
		}
	}
}
