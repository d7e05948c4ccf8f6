package schedules

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// stageTimeout is the session timeout on a stage. Long waits are a multiple of it.
const stageTimeout = 10 * time.Second

// stage is where each frame of a few acquisitions is lost in turn: a server, a coordinator that this happens to, and
// a coordinator that it does not.
type stage struct {
	*testing.T
	srv     *zktest.Server
	network *faultnet.Network
	victim  *coordinator.Coordinator
	other   *coordinator.Coordinator
}

// newStage connects both. The rule is for the victim's frames.
func newStage(t *testing.T, rule func(faultnet.Frame) faultnet.Verdict) *stage {
	t.Helper()
	s := &stage{T: t, srv: zktest.Start(t)}
	s.network = faultnet.New(s.srv.DialContext, rule)
	s.victim, s.other = s.connect(s.network.Dial), s.connect(s.srv.DialContext)
	return s
}

func (s *stage) connect(dial faultnet.Dial) *coordinator.Coordinator {
	s.Helper()
	c, err := coordinator.Connect(context.Background(), s.srv.Addr(),
		coordinator.WithDialer(dial), coordinator.WithSessionTimeout(stageTimeout))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() }) // if the test fails on the way; a second Close does nothing
	return c
}

// keepAway keeps the victim away until its session has ended.
func (s *stage) keepAway() {
	id := s.victim.SessionID()
	go func() {
		s.network.Partition()
		for slices.Contains(s.srv.Sessions(), id) {
			time.Sleep(time.Second)
		}
		s.network.Heal()
	}()
}

// leave ends the play, and checks that nothing is left.
func (s *stage) leave() {
	s.Helper()
	for _, c := range []*coordinator.Coordinator{s.victim, s.other} {
		if err := c.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	if n := len(s.srv.Sessions()); n > 0 {
		s.Errorf("%d sessions left", n)
	}
	s.network.Close()
}
