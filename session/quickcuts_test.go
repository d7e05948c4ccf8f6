package session_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// The connection is lost again and again right behind the handshake, so requests for watches stay in the
// client's queue, and go out on later connections. The race detector is what fails here, if an answer gets
// through before the client has put its own request together.
func TestRequestsForWatchesThatOutliveTheirConnection(t *testing.T) {
	var cuts atomic.Int64
	rule := func(f faultnet.Frame) faultnet.Verdict {
		if f.Direction == faultnet.Down && f.Op == zktest.OpConnect && cuts.Add(-1) >= 0 {
			return faultnet.CutAfter()
		}
		return faultnet.Pass()
	}
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		network := faultnet.New(r.Server.DialContext, rule)
		r.Open("", session.OptionFunc(func(c *session.Config) { c.Dial = network.Dial }))
		r.Plant("n")
		s := r.Watching("n")
		for range 50 {
			cuts.Store(3)
			r.Server.Cut(r.Only())
			r.Settle()
			time.Sleep(2 * time.Second) // the next dial comes at once
		}
		s.Fresh()
		r.DeleteNode("n")
		if told := sessiontest.TypesOf(s.Fresh()); !strings.Contains(told, "Gone") {
			t.Errorf("told %s", told)
		}
	})
}
