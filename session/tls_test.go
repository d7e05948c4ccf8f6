package session_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// tlsFront takes TLS connections and passes what is in them on to the server. The DialFunc leads there from any name.
func tlsFront(t *testing.T, server string, cert tls.Certificate) session.DialFunc {
	t.Helper()
	return session.ServeTCP(t, func(conn net.Conn) {
		front := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
		back, err := net.Dial("tcp", server)
		if err != nil {
			return // the client sees a connection that ends
		}
		var up sync.WaitGroup
		up.Go(func() {
			defer back.Close()
			_, _ = io.Copy(back, front) // that either end hangs up is how this ends
		})
		_, _ = io.Copy(front, back)
		front.Close()
		up.Wait()
	})
}

// A whole session over TLS and TCP, with a certificate of an authority that only this test knows.
func TestSessionOverTLS(t *testing.T) {
	const host = "zk.example.com"
	authority, cert := session.TLSFixture(t, host)
	srv := zktest.Start(t)
	dial := tlsFront(t, srv.Addr(), cert)
	servers := session.Servers{Hosts: []string{host + ":2281"}}
	config := func(roots *tls.Config) session.Config {
		return session.NewConfig(session.OptionFunc(func(c *session.Config) { c.Dial, c.TLS = dial, roots }))
	}
	group := &actors.Group{}
	defer group.Close()
	connected := make(chan events.Event, 100)
	s := session.Open(servers, config(&tls.Config{RootCAs: authority}), group, func(ev events.Event) { connected <- ev })
	defer closeSession(s)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := eventstest.Receive(t, connected, "the first event").(events.Connected); got.Server != host+":2281" || got.Session != srv.Sessions()[0] {
		t.Errorf("the first event is %+v, want session %#x at %s", got, srv.Sessions()[0], host)
	}
	inputs := make(chan recipes.Input, 100)
	seat := s.Seat(session.Place{Dir: "/locks/a"})
	seat.Open(func(in recipes.Input, _ error) { inputs <- in })
	next := func() recipes.Input {
		t.Helper()
		return eventstest.Receive(t, inputs, "what the session tells the seat next")
	}
	next() // Opened
	seat.Create(recipes.Create{Epoch: 1, Attempt: 1})
	made, ok := next().(recipes.Created)
	if !ok || !srv.Exists("/locks/a/"+made.Node.Text) {
		t.Errorf("the create is answered %+v among nodes %v, want one of them", made, srv.Tree())
	}
	srv.CutAll()
	if got := sessiontest.TypesOf([]recipes.Input{next(), next()}); got != "Suspended Reconnected" {
		t.Errorf("after a cut the seat is told %s, want Suspended Reconnected", got)
	}
	seat.List(recipes.List{Epoch: 1, Attempt: 1})
	if in, ok := next().(recipes.Listed); !ok || in.Own.Name != made.Node {
		t.Errorf("the list is answered %+v, want %v as its own", in, made.Node)
	}

	// Without the authority there is no session, and the error says why.
	hopeless, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	cfg := config(&tls.Config{})
	dials := 0
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials == 3 {
			giveUp()
		}
		return dial(ctx, network, addr)
	}
	without := session.Open(servers, cfg, group, func(events.Event) {})
	defer closeSession(without)
	err := without.Ready(hopeless)
	var unverified *tls.CertificateVerificationError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &unverified) {
		t.Errorf("without the authority Ready = %v, want the refused certificate", err)
	}
}

func closeSession(s *session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Close(ctx)
}
