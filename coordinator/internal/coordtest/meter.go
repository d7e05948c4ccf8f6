package coordtest

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Meter is a network that counts frames and loses none.
type Meter struct {
	*faultnet.Network

	mu     sync.Mutex
	counts Count
}

// Count is the traffic of a network, without pings and handshakes.
type Count struct {
	Requests, Events int
	Bytes            int // in both directions
}

// Minus returns what was counted since o.
func (c Count) Minus(o Count) Count {
	return Count{c.Requests - o.Requests, c.Events - o.Events, c.Bytes - o.Bytes}
}

// NewMeter returns a meter on the way to the server.
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

// Read returns the counts once nothing is under way.
func (m *Meter) Read() Count {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// Metered returns n coordinators, each with its own session, and their meters.
func Metered(t *testing.T, srv *zktest.Server, n int) (cs []*coordinator.Coordinator, ms []*Meter) {
	t.Helper()
	for range n {
		m := NewMeter(srv)
		cs = append(cs, Connect(t, srv, coordinator.WithDialer(m.Dial)))
		ms = append(ms, m)
	}
	return cs, ms
}

// Total returns the sum of the meters' counts.
func Total(ms []*Meter) (sum Count) {
	for _, m := range ms {
		c := m.Read()
		sum.Requests, sum.Events, sum.Bytes = sum.Requests+c.Requests, sum.Events+c.Events, sum.Bytes+c.Bytes
	}
	return sum
}

// Cost returns what the meters count while something is done.
func Cost(ms []*Meter, do func()) Count {
	before := Total(ms)
	do()
	return Total(ms).Minus(before)
}
