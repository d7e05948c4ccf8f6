package ensemble

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// echo starts a server that sends back what it receives, and hangs up at the end of its
// input.
func echo(t *testing.T) string {
	t.Helper()
	return eventstest.Serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }) // until the connection ends
}

func through(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp4", p.Addr())
	eventstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	eventstest.Must(t, err)
}

func echoes(t *testing.T, conn net.Conn) {
	t.Helper()
	say(t, conn, "-")
	hears(t, conn, "-")
}

// read returns the next bytes, up to n, and the error that ended the reading.
func read(t *testing.T, conn net.Conn, n int) (string, error) {
	t.Helper()
	eventstest.Must(t, conn.SetReadDeadline(time.Time{}))
	var text []byte
	ended := make(chan error, 1)
	go func() {
		buf := make([]byte, n)
		n, err := io.ReadFull(conn, buf)
		text = buf[:n]
		ended <- err
	}()
	err := eventstest.Receive(t, ended, "bytes from the proxy, or the end of the connection")
	return string(text), err
}

func hears(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if got, err := read(t, conn, len(want)); err != nil || got != want {
		t.Fatalf("the connection carries %q, %v; want %q", got, err, want)
	}
}

// silent fails the test if anything arrives for a while, even the end.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	eventstest.Must(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	buf := make([]byte, 1)
	if n, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection carries %q, %v; want silence", buf[:n], err)
	}
}

func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := read(t, conn, 1); err == nil {
		t.Fatalf("the connection carries %q, want its end", got)
	}
}

// In a silent direction nothing passes, neither on open connections nor on new ones, nor
// the end of a connection. Everything arrives when the silence is over.
func TestProxyHolds(t *testing.T) {
	for _, ways := range []Direction{ToServer, ToClient, BothWays} {
		t.Run(ways.String(), func(t *testing.T) {
			p := StartProxy(t, echo(t))
			conn := through(t, p)
			echoes(t, conn)
			p.Hold(ways)
			say(t, conn, "two")
			say(t, conn, "three")
			eventstest.Must(t, conn.CloseWrite())
			later := through(t, p)
			say(t, later, "four")
			silent(t, conn)
			silent(t, later)
			p.Heal()
			hears(t, conn, "twothree")
			ends(t, conn)
			hears(t, later, "four")
			eventstest.Equal(t, p.Accepted(), 2, "connections that the proxy has accepted")
		})
	}
}

// One direction continues while the other one is silent. Text is delivered or not by its
// own direction alone.
func TestProxyHoldsOneWayOnly(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	defer listener.Close()
	p := StartProxy(t, listener.Addr().String())
	front := through(t, p)
	back, err := listener.Accept()
	eventstest.Must(t, err)
	defer back.Close()
	p.Hold(ToServer)
	say(t, front, "lost")
	say(t, back, "heard")
	hears(t, front, "heard")
	silent(t, back)
	p.Hold(ToClient) // and no longer to the server
	hears(t, back, "lost")
	say(t, back, "later")
	silent(t, front)
	p.Heal()
	hears(t, front, "later")
}

func TestProxyLags(t *testing.T) {
	const lag = 150 * time.Millisecond
	p := StartProxy(t, echo(t))
	conn := through(t, p)
	echoes(t, conn)
	for ways, want := range map[Direction]time.Duration{ToServer: lag, ToClient: lag, BothWays: 2 * lag} {
		p.Lag(ways, lag)
		begin := time.Now()
		for range 3 { // what is sent together arrives together
			say(t, conn, "-")
		}
		hears(t, conn, "---")
		took := time.Since(begin)
		eventstest.Expect(t, took >= want, "with a lag of %v %v an answer took %v, want %v", lag, ways, took, want)
		p.Lag(BothWays, 0)
	}
	// What is late may pass at once when the lag ends.
	p.Lag(BothWays, time.Hour)
	say(t, conn, "-")
	silent(t, conn)
	p.Heal()
	hears(t, conn, "-")
}

// TestALagLimitsNoThroughput: bytes sent without pauses arrive without pauses, however
// late.
func TestALagLimitsNoThroughput(t *testing.T) {
	const lag, size = 100 * time.Millisecond, 4 << 20
	p := StartProxy(t, echo(t))
	conn := through(t, p)
	carry := func() time.Duration {
		begin := time.Now()
		said := make(chan error, 1)
		go func() {
			_, err := conn.Write(make([]byte, size))
			said <- err
		}()
		if got, err := read(t, conn, size); err != nil {
			t.Fatalf("%d of %d bytes came back: %v", len(got), size, err)
		}
		eventstest.Must(t, <-said)
		return time.Since(begin)
	}
	plain := carry()
	p.Lag(BothWays, lag)
	// With a pause for each parcel, it would take 256 lags.
	took, most := carry(), 3*2*lag+20*plain
	eventstest.Expect(t, took >= 2*lag && took <= most,
		"%d bytes took %v with a lag of %v, %v without; want %v to %v", size, took, lag, plain, 2*lag, most)
}

// TestALagIsExact: it is exact to a fraction of a millisecond, unlike timers. The best of
// several attempts shows what the proxy can do; the rest depends on the load of the
// machine.
func TestALagIsExact(t *testing.T) {
	const lag = 500 * time.Microsecond
	p := StartProxy(t, echo(t))
	conn := through(t, p)
	best := func() time.Duration {
		least := time.Hour
		for range 50 {
			begin := time.Now()
			echoes(t, conn)
			least = min(least, time.Since(begin))
		}
		return least
	}
	plain := best()
	p.Lag(BothWays, lag)
	took, most := time.Hour, 2*lag+max(lag, 4*plain)
	for again := 20; took > most && again > 0; again-- {
		took = min(took, best())
	}
	eventstest.Expect(t, took >= 2*lag && took <= most,
		"with a lag of %v each way an echo takes %v, %v without; want %v to %v", lag, took, plain, 2*lag, most)
}

func TestProxyRefusesAndCuts(t *testing.T) {
	p := StartProxy(t, echo(t))
	old := through(t, p)
	echoes(t, old)
	p.Refuse(true)
	ends(t, through(t, p))
	echoes(t, old)
	p.Heal()
	young := through(t, p)
	echoes(t, young)
	p.Cut()
	ends(t, old)
	ends(t, young)
	again := through(t, p)
	echoes(t, again)
	p.Hold(BothWays)
	eventstest.Must(t, p.Close()) // also during a silence, and twice, with the Close at the test's end
	ends(t, again)
	_, err := net.Dial("tcp4", p.Addr())
	eventstest.ErrorIs(t, err, syscall.ECONNREFUSED, "dialling the closed proxy")
	ends(t, through(t, StartProxy(t, "127.0.0.1:1"))) // there is no server
}
