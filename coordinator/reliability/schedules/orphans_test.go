package schedules_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// orphanTimeout is the session timeout of the stories. Long waits in them are a multiple of it.
const orphanTimeout = 10 * time.Second

// use is one use of a lock from beginning to end.
type use struct {
	name string
	path string
	// ours: the directory is there, and known to be ours.
	ours bool
	// others hold the lock before it begins, and release it after a second.
	others bool
	// unfair: it is an unfair lock, whose node is at the path and not below it.
	unfair bool
	// play uses the lock, whatever happens to it, and returns when it is over.
	play func(s *scene, a *coordinator.Acquisition)
}

func uses() []use {
	hold := func(s *scene, a *coordinator.Acquisition) {
		select {
		case <-a.Granted():
			s.holding(a)
			a.Release()
		case <-a.Done():
			s.Errorf("ended with %v before it was granted", a.Err())
		case <-time.After(10 * orphanTimeout):
			s.Fatalf("never granted; nodes %v", s.nodes())
		}
	}
	leave := func(s *scene, a *coordinator.Acquisition) {
		time.Sleep(time.Second / 2)
		a.Release()
	}
	atOnce := func(_ *scene, a *coordinator.Acquisition) { a.Release() }
	return []use{
		{name: "alone", path: "/locks/a", play: hold},
		{name: "alone, in our directory", path: "/locks/ours", ours: true, play: hold},
		{name: "new directory", path: "/new/and/deep", play: hold},
		{name: "after another", path: "/locks/a", others: true, play: hold},
		{name: "after another, in our directory", path: "/locks/ours", ours: true, others: true, play: hold},
		{name: "waits and leaves", path: "/locks/a", others: true, play: leave},
		{name: "leaves at once", path: "/locks/a", others: true, play: atOnce},
		{name: "leaves at once, alone", path: "/new/one", play: atOnce},
		{name: "leaves at once, alone in our directory", path: "/locks/ours", ours: true, play: atOnce},
		{name: "unfair, alone", path: "/tasks/a", unfair: true, play: hold},
		{name: "unfair, after another", path: "/tasks/a", unfair: true, others: true, play: hold},
		{name: "unfair, waits and leaves", path: "/tasks/a", unfair: true, others: true, play: leave},
		{name: "unfair, leaves at once", path: "/tasks/a", unfair: true, play: atOnce},
	}
}

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
	*testing.T
	use
	loss
	direction faultnet.Direction
	nth       int // the frame that is lost, counted from the beginning of the story
	again     int // so many frames later one is lost with its connection; 0 for never

	srv     *zktest.Server
	network *faultnet.Network
	other   int64 // the other session
	began   atomic.Bool
	base    [faultnet.Down + 1]int // frames before it began
	lost    atomic.Bool
	most    atomic.Int64 // nodes of this client at one time
}

// TestNoNodeIsLeftWhateverFrameIsLost loses each frame of each story in turn, in both directions, and
// another one soon after or none.
func TestNoNodeIsLeftWhateverFrameIsLost(t *testing.T) {
	trials, doubled, left := 0, 0, 0
	for _, st := range uses() {
		for _, how := range losses() {
			for _, direction := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
				for nth, there := 1, true; there && !t.Failed(); nth++ { // until there is no such frame
					for again := range reliability.Trials(3, 8) {
						synctest.Test(t, func(t *testing.T) {
							s := &scene{T: t, use: st, loss: how, direction: direction, nth: nth, again: again}
							defer func() {
								if t.Failed() {
									t.Errorf("in: %s; frame %d %s is lost %s, and another one %d later",
										st.name, nth, direction, how.name, again)
								}
							}()
							remain := s.run()
							there = s.lost.Load()
							if s.most.Load() > 1 {
								doubled++
								t.Errorf("%d nodes of one contender at one time", s.most.Load())
							}
							if remain > 0 {
								left++
							}
						})
						if there {
							trials++
						}
					}
				}
			}
		}
	}
	if trials < 200 {
		t.Errorf("only %d frames were lost", trials)
	}
	reliability.Report(t, reliability.RowOrphans, "%d left and %d doubled in %d trials: %d stories, "+
		"each frame lost up and down, %d ways, some with a second one soon after",
		left, doubled, trials, len(uses()), len(losses()))
}

// run plays the story and returns how many nodes are left.
func (s *scene) run() int {
	s.srv = zktest.Start(s.T)
	s.network = faultnet.New(s.srv.DialContext, s.rule)
	connect := func(dial faultnet.Dial) *coordinator.Coordinator {
		c, err := coordinator.Connect(context.Background(), s.srv.Addr(),
			coordinator.WithDialer(dial), coordinator.WithSessionTimeout(orphanTimeout))
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = c.Close() }) // if something fails on the way, or again
		return c
	}
	c, other := connect(s.network.Dial), connect(s.srv.DialContext)
	s.other = other.SessionID()
	if s.path == "/locks/a" {
		if err := s.srv.Create(s.path, nil); err != nil {
			s.Fatal(err)
		}
	}
	if s.ours {
		s.warm(c, other, c) // whoever makes the directory learns by the next listing that it is ours
	}
	if s.others {
		first := s.lockOf(other).Acquire(context.Background())
		_ = await(s, "another holds the lock", first.Granted())
		time.AfterFunc(time.Second, first.Release)
	}
	for _, d := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
		s.base[d] = s.network.Frames(d)
	}
	s.began.Store(true)

	a := s.lockOf(c).Acquire(context.Background())
	s.play(s, a)
	_ = await(s, "it is over", a.Done())
	s.began.Store(false) // pings go on for ever
	s.count()
	if a.Valid() {
		s.Error("valid after Done")
	}
	// Whoever comes next gets in, and does not wait longer than for the end of a session.
	start := time.Now()
	next := s.lockOf(other).Acquire(context.Background())
	_ = await(s, "the next contender gets in", next.Granted())
	if took := time.Since(start); took > 2*orphanTimeout {
		s.Errorf("the next contender waited for %v", took)
	}
	next.Release()
	_ = await(s, "the next contender is out", next.Done())
	time.Sleep(3 * orphanTimeout) // and the network is back for long
	s.count()
	remain := s.nodes()
	if len(remain) > 0 {
		s.Errorf("left before Close: %v", remain)
	}
	for _, c := range []*coordinator.Coordinator{c, other} {
		if err := c.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	if n := len(s.srv.Sessions()); n > 0 {
		s.Errorf("%d sessions left", n)
	}
	s.network.Close()
	return len(remain)
}

// lockOf returns the story's lock as the coordinator's.
func (s *scene) lockOf(c *coordinator.Coordinator) *coordinator.Lock {
	if s.unfair {
		return c.Unfair(s.path)
	}
	return c.Mutex(s.path)
}

// nodes returns the paths of the lock's nodes.
func (s *scene) nodes() []string {
	if s.unfair {
		if s.srv.Exists(s.path) {
			return []string{s.path}
		}
		return nil
	}
	nodes := s.srv.Children(s.path)
	for i := range nodes {
		nodes[i] = s.path + "/" + nodes[i]
	}
	return nodes
}

// warm has each of them hold the lock once.
func (s *scene) warm(cs ...*coordinator.Coordinator) {
	for _, c := range cs {
		a := s.lockOf(c).Acquire(context.Background())
		_ = await(s, "the lock is granted", a.Granted())
		a.Release()
		_ = await(s, "it is released", a.Done())
	}
}

// await receives, and fails if that takes longer than any of this may.
func await[T any](s *scene, what string, from <-chan T) T {
	s.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * orphanTimeout):
		s.Fatalf("it never happens that %s; nodes %v", what, s.nodes())
	}
	panic("not reached")
}

// holding holds the lock for a while, or until it is lost with the session.
func (s *scene) holding(a *coordinator.Acquisition) {
	for range 20 {
		select {
		case <-time.After(orphanTimeout / 100):
		case lost := <-a.Lost():
			if !s.expires {
				s.Errorf("%+v", lost)
			}
			return
		}
		if n := s.count(); n != 1 && a.Valid() {
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
	case f.Direction != s.direction:
		return faultnet.Pass()
	case s.again > 0 && at == s.nth+s.again:
		return faultnet.CutBefore()
	case at != s.nth:
		return faultnet.Pass()
	}
	s.lost.Store(true)
	if s.expires {
		s.network.Partition()
		id := s.session()
		go func() {
			for slices.Contains(s.srv.Sessions(), id) {
				time.Sleep(time.Second)
			}
			s.network.Heal()
		}()
	}
	return s.verdict
}

// session returns the session that is not the other's.
func (s *scene) session() int64 {
	for _, id := range s.srv.Sessions() {
		if id != s.other {
			return id
		}
	}
	return 0
}

// count counts the nodes of this client.
func (s *scene) count() int {
	n := 0
	for _, child := range s.nodes() {
		if s.srv.Owner(child) != s.other {
			n++
		}
	}
	for most := s.most.Load(); most < int64(n) && !s.most.CompareAndSwap(most, int64(n)); {
		most = s.most.Load() // frames of both directions are counted at the same time
	}
	return n
}
