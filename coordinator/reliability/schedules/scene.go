package schedules

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// loss is how a frame is lost.
type loss struct {
	name    string
	verdict faultnet.Verdict
	// expires: the client is kept away until its session has ended.
	expires bool
}

func losses() []loss {
	return []loss{
		{"with the connection", faultnet.CutBefore(), false},
		{"with the connection and the session", faultnet.CutBefore(), true},
		{"and whatever follows", faultnet.Swallow(), false},
		{"and whatever follows, and the session", faultnet.Swallow(), true},
	}
}

// scene is a story while it is played.
type scene struct {
	*stage
	use
	loss
	direction faultnet.Direction
	nth       int // the frame that is lost, counted from the beginning of the story
	again     int // so many frames later another one is lost with its connection; 0: never

	began atomic.Bool
	base  [faultnet.Down + 1]int // frames before the beginning
	lost  atomic.Bool
	most  atomic.Int64 // nodes of this client at one time

	frames [faultnet.Down + 1]int // from the beginning of the story to its end
	remain int                    // nodes that are left
}

// run plays the story.
func (s *scene) run() {
	if s.path == "/locks/a" {
		if err := s.srv.Create(s.path, nil); err != nil {
			s.Fatal(err)
		}
	}
	if s.ours {
		s.warm(s.victim, s.other, s.victim) // the session that makes the directory learns from the next listing that it is ours
	}
	if s.others {
		first := s.first(s.other, s.path).Acquire(context.Background())
		_ = await(s, "another holds the lock", first.Granted())
		time.AfterFunc(time.Second, first.Release)
	}
	for _, d := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
		s.base[d] = s.network.Frames(d)
	}
	s.began.Store(true)

	a := s.lock(s.victim, s.path).Acquire(context.Background())
	s.play(s, a)
	_ = await(s, "it is over", a.Done())
	s.began.Store(false) // pings go on for ever
	for _, d := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
		s.frames[d] = s.network.Frames(d) - s.base[d]
	}
	s.count()
	if a.Valid() {
		s.Error("valid after Done")
	}
	// The next contender gets in, and waits no longer than for the end of a session.
	start := time.Now()
	next := s.next(s.other, s.path).Acquire(context.Background())
	_ = await(s, "the next contender gets in", next.Granted())
	if took := time.Since(start); took > 2*stageTimeout {
		s.Errorf("the next contender waited for %v", took)
	}
	next.Release()
	_ = await(s, "the next contender is out", next.Done())
	time.Sleep(3 * stageTimeout) // the network is back for long
	s.count()
	remain := s.everything()
	if s.remain = len(remain); s.remain > 0 {
		s.Errorf("left before Close: %v", remain)
	}
	if n, want := s.most.Load(), int64(max(1, s.nodes)); n > want {
		s.Errorf("%d nodes of one contender at one time, want %d at most", n, want)
	}
	s.leave()
}

// warm has each coordinator hold the lock once.
func (s *scene) warm(cs ...*coordinator.Coordinator) {
	for _, c := range cs {
		a := s.next(c, s.path).Acquire(context.Background())
		_ = await(s, "the lock is granted", a.Granted())
		a.Release()
		_ = await(s, "it is released", a.Done())
	}
}

// await receives, and fails if that takes longer than any step may.
func await[T any](s *scene, what string, from <-chan T) T {
	s.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * stageTimeout):
		s.Fatalf("it never happens that %s; nodes %v", what, s.srv.Children(s.path))
	}
	panic("not reached")
}

// holding holds the lock for a while, or until it is lost with the session.
func (s *scene) holding(a *coordinator.Acquisition) {
	for range 20 {
		select {
		case <-time.After(stageTimeout / 100):
		case lost := <-a.Lost():
			if !s.expires {
				s.Errorf("%+v", lost)
			}
			return
		}
		if n := s.count(); (n < 1 || n > max(1, s.nodes)) && a.Valid() {
			s.Errorf("%d nodes while the lock is held", n)
		}
	}
}

// rule loses the one frame.
func (s *scene) rule(f faultnet.Frame) faultnet.Verdict {
	if !s.began.Load() {
		return faultnet.Pass()
	}
	s.count()
	at := f.Number - s.base[f.Direction]
	switch {
	case s.nth == 0, f.Direction != s.direction:
		return faultnet.Pass()
	case s.again > 0 && at == s.nth+s.again:
		return faultnet.CutBefore()
	case at != s.nth:
		return faultnet.Pass()
	}
	s.lost.Store(true)
	if s.expires {
		s.keepAway()
	}
	return s.verdict
}

// everything returns the nodes of all holders and waiters, and the record of a crashed holder.
func (s *scene) everything() (nodes []string) {
	dirs := s.dirs
	switch {
	case s.itself && s.srv.Exists(s.path):
		return []string{s.path}
	case dirs == nil:
		dirs = []string{""}
	}
	if record := s.path + session.RecordSuffix; s.srv.Exists(record) {
		nodes = append(nodes, record)
	}
	for _, dir := range dirs {
		for _, child := range s.srv.Children(s.path + dir) {
			nodes = append(nodes, s.path+dir+"/"+child)
		}
	}
	return nodes
}

// count counts the nodes of this client.
func (s *scene) count() int {
	n := 0
	for _, node := range s.everything() {
		// Between the two looks the node may go: then it has no owner.
		if owner := s.srv.Owner(node); owner != 0 && owner != s.other.SessionID() {
			n++
		}
	}
	for most := s.most.Load(); most < int64(n) && !s.most.CompareAndSwap(most, int64(n)); {
		most = s.most.Load() // frames of both directions are counted at the same time
	}
	return n
}
