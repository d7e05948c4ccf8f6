package coordinator_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// identity is what a source says, and what it has led to on the wire.
type identity struct {
	mu   sync.Mutex
	says string
	sent []string
}

func (i *identity) set(says string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.says = says
}

func (i *identity) all() []session.Auth {
	i.mu.Lock()
	defer i.mu.Unlock()
	return []session.Auth{{Scheme: "digest", Auth: []byte(i.says)}}
}

// since returns what was sent since the last call.
func (i *identity) since() string {
	synctest.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	defer func() { i.sent = nil }()
	return strings.Join(i.sent, " ")
}

func (i *identity) option(srv *zktest.Server) coordinator.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Identities = i.all
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return identified{conn, i}, nil
		}
	})
}

type identified struct {
	net.Conn
	i *identity
}

func (c identified) Write(p []byte) (int, error) {
	const head, auth, digest = 12, 100, 4 + 4 + len("digest") + 4
	if len(p) > head+digest && binary.BigEndian.Uint32(p[8:]) == auth {
		c.i.mu.Lock()
		c.i.sent = append(c.i.sent, string(p[head+digest:]))
		c.i.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// TestAChangedIdentityWaitsForTheLastNode: with another identity a session may not be able to delete its own nodes. When they are
// gone, the former one is not sent again, on no connection.
func TestAChangedIdentityWaitsForTheLastNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.InfoLevel)
		who := &identity{says: "u:old"}
		want := func(when, identities string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if got := who.since(); got != identities {
				t.Errorf("%s: the identities %q were sent, want %q", when, got, identities)
			}
		}
		c := coordtest.Connect(t, srv, who.option(srv), coordinator.WithACL(zk.AuthACL(zk.PermAll)), coordinator.WithLogger(zap.New(core)))
		want("at first", "u:old")
		held, _ := coordtest.Hold(t, c.Mutex("/old/a"))
		waits := coordtest.Queue(c.Mutex("/old/a"))
		who.set("u:new")
		srv.CutAll()
		want("while the lock is held", "u:old")
		coordtest.NotLost(t, held)
		srv.CutAll()
		want("on one more connection", "u:old")
		if n := logs.FilterMessageSnippet("the identities have changed; the former ones").Len(); n != 1 {
			t.Errorf("the change is logged %d times, want once", n)
		}
		coordtest.End(held)
		coordtest.Soon(t, waits)
		want("while the waiter has the lock", "")
		session := c.SessionID()
		coordtest.End(waits)
		want("when the last node is gone", "u:new")
		if left := srv.Children("/old/a"); len(left) > 0 {
			t.Errorf("the nodes %q are left", left)
		}

		held, _ = coordtest.Hold(t, c.Mutex("/new/a"))
		srv.CutAll()
		want("while the next lock is held", "u:new")
		coordtest.NotLost(t, held)
		coordtest.End(held)
		want("after it", "")
		if c.SessionID() != session {
			t.Error("the change of identities has cost the session")
		}

		// A new session has no node.
		held, _ = coordtest.Hold(t, c.Mutex("/new/a"))
		who.set("u:newest")
		srv.CutAll()
		want("while the lock is held again", "u:new")
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-held.Lost()
		want("in a new session", "u:newest")
	})
}
