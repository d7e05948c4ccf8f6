package session_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// rewriting passes every frame on, but rewrites one answer to a request of the kind once
// it is armed.
type rewriting struct {
	net.Conn
	op      uint32
	armed   *atomic.Bool
	rewrite func(body []byte) []byte

	in      *bufio.Reader
	out     []byte
	greeted bool // by the server

	mu    sync.Mutex
	hello bool // of the client
	asked map[int32]bool
}

func (c *rewriting) Write(p []byte) (int, error) {
	c.mu.Lock()
	for rest := p; len(rest) >= 4; {
		n := 4 + int(binary.BigEndian.Uint32(rest))
		if n > len(rest) {
			break
		}
		if c.hello && n >= 12 && binary.BigEndian.Uint32(rest[8:]) == c.op {
			c.asked[int32(binary.BigEndian.Uint32(rest[4:]))] = true
		}
		c.hello = true
		rest = rest[n:]
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *rewriting) Read(p []byte) (int, error) {
	if len(c.out) == 0 {
		var length [4]byte
		if _, err := io.ReadFull(c.in, length[:]); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(c.in, body); err != nil {
			return 0, err
		}
		c.mu.Lock()
		meant := c.greeted && c.asked[int32(binary.BigEndian.Uint32(body))]
		c.mu.Unlock()
		c.greeted = true
		if meant && c.armed.CompareAndSwap(true, false) {
			body = c.rewrite(body)
		}
		c.out = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// The kinds of requests, as the protocol numbers them.
const (
	opCreate   = 1
	opChildren = 12
	opMulti    = 14
)

// rewrites runs the test in a session in which one answer to a request of the kind is
// rewritten when it is armed.
func rewrites(t *testing.T, op uint32, rewrite func(body []byte) []byte, test func(r *sessiontest.Rig, arm func())) {
	t.Helper()
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		armed := &atomic.Bool{}
		r.Open("", session.OptionFunc(func(c *session.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &rewriting{
					Conn: conn, op: op, armed: armed, rewrite: rewrite, in: bufio.NewReader(conn), asked: map[int32]bool{},
				}, nil
			}
		}))
		test(r, func() { armed.Store(true) })
	})
}

// claimsOnce has the answer to one claim rewritten. The connection may be given up for
// that. The next claim is answered as usual.
func claimsOnce(t *testing.T, rewrite func(body []byte) []byte) {
	t.Helper()
	rewrites(t, opMulti, rewrite, func(r *sessiontest.Rig, arm func()) {
		s := r.Seated()
		r.Plant("n")
		arm()
		s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "n"}})
		s.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpClaim})
		r.Settle()
		s.ClaimNode(1, "n")
	})
}

// TestATransactionsAnswerThatEndsInAHeader: the header of a reply and the kind of the
// first result. The client would panic.
func TestATransactionsAnswerThatEndsInAHeader(t *testing.T) {
	claimsOnce(t, func(body []byte) []byte { return body[:20] })
}

// TestATransactionsAnswerWithOneResultMore than the transaction had operations.
func TestATransactionsAnswerWithOneResultMore(t *testing.T) {
	check := []byte{0, 0, 0, 13, 0, 0, 0, 0, 0} // kind, not the last, no error
	claimsOnce(t, func(body []byte) []byte { return slices.Insert(body, 16, check...) })
}

// TestAnAnnouncedListIsNotTrusted: an answer of 20 bytes says that 4 Mi names follow. The
// client would make room for all of them, 64 MiB.
func TestAnAnnouncedListIsNotTrusted(t *testing.T) {
	const names, most = 1 << 22, 16 << 20
	announce := func(body []byte) []byte { return binary.BigEndian.AppendUint32(body[:16:16], names) }
	rewrites(t, opChildren, announce, func(r *sessiontest.Rig, arm func()) {
		r.Plant("n")
		arm()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found, err := r.Session.ReadQueue(ctx, sessiontest.Dir, nil)
		runtime.ReadMemStats(&after)
		if err != nil || len(found) != 1 {
			t.Errorf("the queue is read as %v with %v, want one node: the listing is made again", found, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("an answer of 20 bytes has the process allocate %d bytes, want at most %d", got, most)
		}
	})
}

// TestAnAnswerThatCannotBeRead, because it ends in the length of a long path, may be one to
// a request that was executed. The client has the same error for a request that is too
// long to be sent.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	cut := func(body []byte) []byte { return append(body[:16:16], 0x7f, 0xff, 0xff, 0xff) }
	rewrites(t, opCreate, cut, func(r *sessiontest.Rig, arm func()) {
		s := r.Seated()
		r.Plant("n") // the directory is not ours, so the node is made without a transaction
		arm()
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		s.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
		r.Settle()
		if listed := s.ListNodes(1); listed.Own.Name.Text == "" {
			t.Errorf("the node is not found, want it: the create was executed: %+v", listed)
		}
	})
}
