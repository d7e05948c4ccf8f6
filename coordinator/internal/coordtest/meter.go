package coordtest

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Meter is a network that counts frames and loses nothing.
type Meter struct {
	*faultnet.Network

	mu     sync.Mutex
	counts Count
}

// Count is what has gone over a network, without pings and handshakes.
type Count struct {
	Requests, Events int
	Bytes            int // both ways
}

// Minus returns what was added since o.
func (c Count) Minus(o Count) Count {
	return Count{c.Requests - o.Requests, c.Events - o.Events, c.Bytes - o.Bytes}
}

// NewMeter returns a network to the server.
func NewMeter(srv *zktest.Server) *Meter {
	m := &Meter{}
	m.Network = faultnet.New(srv.DialContext, func(f faultnet.Frame) faultnet.Verdict {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case f.Op == zktest.OpPing || f.Op == zktest.OpConnect || f.Op == zktest.OpClose:
			return faultnet.Pass()
		case f.Direction == faultnet.Up:
			m.counts.Requests++
		case f.Op == faultnet.OpEvent:
			m.counts.Events++
		}
		m.counts.Bytes += f.Size
		return faultnet.Pass()
	})
	return m
}

// Read returns the counts when nothing is under way.
func (m *Meter) Read() Count {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// Metered returns n coordinators, each with a session of its own, and their meters.
func Metered(t *testing.T, srv *zktest.Server, n int) (cs []*coordinator.Coordinator, ms []*Meter) {
	t.Helper()
	for range n {
		m := NewMeter(srv)
		cs = append(cs, Connect(t, srv, coordinator.WithDialer(m.Dial)))
		ms = append(ms, m)
	}
	return cs, ms
}

// Total adds up what the meters have counted.
func Total(ms []*Meter) (sum Count) {
	for _, m := range ms {
		c := m.Read()
		sum.Requests, sum.Events, sum.Bytes = sum.Requests+c.Requests, sum.Events+c.Events, sum.Bytes+c.Bytes
	}
	return sum
}
