package histories

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// virtualTick is the tick of servers in virtual time.
const virtualTick = time.Second

// breakage breaks the server for one session or for all, and mends it after a while.
type breakage struct {
	srv     *zktest.Server
	history *history
	random  *rand.Rand
	timeout time.Duration
}

// newBreakage starts a server. The seed decides its settings.
func newBreakage(t *testing.T, seed uint64, h *history) *breakage {
	t.Helper()
	b := &breakage{history: h, random: rand.New(rand.NewPCG(seed, 0))}
	b.timeout = time.Duration(3+b.random.IntN(10)) * virtualTick
	settings := []zktest.Setting{zktest.Tick(virtualTick)}
	if b.random.IntN(2) == 0 {
		settings = append(settings, zktest.Followers())
	}
	b.srv = zktest.Start(t, settings...)
	return b
}

// connect returns a function that makes one coordinator like the other.
func (b *breakage) connect() func() (*coordinator.Coordinator, error) {
	options := []coordinator.Option{
		b.srv.Option(), coordinator.WithSessionTimeout(b.timeout), coordinator.WithTickTime(virtualTick),
	}
	if b.random.IntN(4) == 0 {
		options = append(options, coordinator.WithLossOnSuspend())
	}
	return func() (*coordinator.Coordinator, error) {
		return coordinator.Connect(context.Background(), b.srv.Addr(), options...)
	}
}

// until breaks something, waits for up to pause, and repeats that until finished is closed.
func (b *breakage) until(finished <-chan struct{}, pause time.Duration, breaks func()) {
	for {
		time.Sleep(b.upTo(pause)) // the watchdog takes a sleep for no hang, unlike a timer
		select {
		case <-finished:
			return
		default:
			breaks()
		}
	}
}

func (b *breakage) upTo(d time.Duration) time.Duration {
	return time.Duration(b.random.Int64N(int64(d) + 1))
}

// something breaks for a session, or for all of them, for at most twice the session timeout.
func (b *breakage) something(session int64) {
	lasting := b.upTo(2 * b.timeout)
	switch b.random.IntN(8) {
	case 0:
		b.history.note("%#x expires", session)
		b.history.end(session)
		_ = b.srv.Expire(session) // between two sessions there is none
	case 1, 2:
		b.history.note("%#x is cut", session)
		b.srv.Cut(session)
	case 3, 4:
		b.history.note("%#x is muted for %v", session, lasting)
		b.srv.Mute(session, true)
		time.AfterFunc(lasting, func() { b.srv.Mute(session, false) })
	case 5, 6:
		b.history.note("%#x is stranded for %v", session, lasting)
		b.srv.Strand(session, true)
		time.AfterFunc(lasting, func() {
			b.srv.Cut(session) // a follower does so when it finds out
			b.srv.Strand(session, false)
		})
	default:
		lasting /= 4
		b.history.note("the server is away for %v", lasting)
		b.srv.Down(true)
		time.AfterFunc(lasting, func() { b.srv.Down(false) })
	}
}
