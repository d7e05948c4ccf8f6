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

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// identity is a source of identities, and records which were sent.
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
			return identified{conn, i}, err
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

// TestAChangedIdentityWaitsForTheLastNode: with another identity, a session may not be
// able to delete its own nodes. Once they are gone, the old identity is not sent again on
// any connection.
func TestAChangedIdentityWaitsForTheLastNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		who := &identity{says: "u:old"}
		want := func(when, identities string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			expectEqual(t, who.since(), identities, "%s the identities sent are", when)
		}
		c, logs := logged(t, srv, zap.InfoLevel, who.option(srv), coordinator.WithACL(zk.AuthACL(zk.PermAll)))
		want("at first", "u:old")
		held, _ := coordtest.Hold(t, c.Mutex("/old/a"))
		waits := coordtest.Queue(c.Mutex("/old/a"))
		who.set("u:new")
		srv.CutAll()
		want("while the lock is held", "u:old")
		coordtest.NotLost(t, held)
		srv.CutAll()
		want("on one more connection", "u:old")
		told := logs.FilterMessageSnippet("the identities have changed; the old ones")
		expectEqual(t, told.Len(), 1, "lines about the change")
		coordtest.End(held)
		coordtest.Soon(t, waits)
		want("while the waiter has the lock", "")
		session := c.SessionID()
		coordtest.End(waits)
		want("when the last node is gone", "u:new")
		expectNone(t, srv.Children("/old/a"), "nodes that are left")

		held, _ = coordtest.Hold(t, c.Mutex("/new/a"))
		srv.CutAll()
		want("while the next lock is held", "u:new")
		coordtest.NotLost(t, held)
		coordtest.End(held)
		want("after it", "")
		expectEqual(t, c.SessionID(), session, "the session after the change")

		// A new session has no nodes.
		held, _ = coordtest.Hold(t, c.Mutex("/new/a"))
		who.set("u:newest")
		srv.CutAll()
		want("while the lock is held again", "u:new")
		expire(t, srv, c)
		<-held.Lost()
		want("in a new session", "u:newest")
	})
}

// slowStart is a mechanism whose exchange starts when the test allows it.
type slowStart struct {
	sasl.Mechanism

	began chan<- struct{}
	let   <-chan struct{}
}

func (m slowStart) Start(ctx context.Context, server string) (sasl.Exchange, error) {
	m.began <- struct{}{}
	<-m.let
	return m.Mechanism.Start(ctx, server)
}

// TestAnIdentityThatEndsDuringADialIsGivenUp walks through the one moment in which there
// is no connection to hang up:
//
//  1. A dial has asked for the identities. The session may have a node, so it gets the
//     old ones.
//  2. The last seat goes while a SASL exchange begins. There is no connection yet that
//     could be hung up.
//  3. The session is resumed with outdated identities. The next lock may be made with
//     them, which costs a connection.
func TestAnIdentityThatEndsDuringADialIsGivenUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("app", "secret")
		who := &identity{says: "u:old"}
		began, let := make(chan struct{}, 8), make(chan struct{}, 8)
		let <- struct{}{}
		c := coordtest.Connect(t, srv, who.option(srv), coordinator.WithSASL(slowStart{sasl.DigestMD5("app", "secret"), began, let}))
		<-began
		expectEqual(t, who.since(), "u:old", "at first the identities sent are")
		srv.Cut(c.SessionID())
		synctest.Wait() // so that nothing below is sent
		waits := c.Mutex(lockPath).Acquire(t.Context())
		who.set("u:new")
		<-began
		synctest.Wait()
		waits.Release()
		<-waits.Done()
		synctest.Wait()
		close(let)
		time.Sleep(2 * time.Second)
		sent := who.since()
		expect(t, strings.HasSuffix(sent, "u:new"), "without a seat %q were sent, want u:new in the end", sent)
		coordtest.Hold(t, c.Mutex(lockPath))
	})
}
