package schedules_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// grip makes a handle.
type grip func(c *coordinator.Coordinator, path string) handle

func asMutex(c *coordinator.Coordinator, path string) handle { return c.Mutex(path) }

// use is one use of a lock from beginning to end.
type use struct {
	name string
	path string
	lock grip // how it is asked for; nil: as a mutex
	// first is what others hold, and next what they ask for afterwards, to be alone.
	first, next grip
	// nodes is how many one contender may have at one time; 0 is one.
	nodes int
	// dirs are where nodes are, below the path; nil: right there.
	dirs []string
	// itself: the node is at the path.
	itself bool
	// ours: the directory is there, and known to be ours.
	ours bool
	// others hold the lock before it begins, and release it after a second.
	others bool
	// play uses the lock, whatever happens to it, and returns when it is over.
	play func(s *scene, a *coordinator.Acquisition)
}

func uses() []use {
	all := slices.Concat(usesOfMutex(), usesOfReadWrite(), usesOfSemaphore(), usesOfUnfair(), usesOfMulti(), usesOfCrashes())
	for i := range all {
		if u := &all[i]; u.lock == nil {
			u.lock, u.first, u.next = asMutex, asMutex, asMutex
		}
	}
	return all
}

// hold waits for the lock, holds it, and releases it.
func hold(s *scene, a *coordinator.Acquisition) {
	select {
	case <-a.Granted():
		s.holding(a)
		a.Release()
	case <-a.Done():
		s.Errorf("ended with %v before it was granted", a.Err())
	case <-time.After(10 * stageTimeout):
		s.Fatalf("never granted; nodes %v", s.srv.Children(s.path))
	}
}

// giveUp releases the lock before it can be granted.
func giveUp(_ *scene, a *coordinator.Acquisition) {
	time.Sleep(time.Second / 2)
	a.Release()
}

func giveUpAtOnce(_ *scene, a *coordinator.Acquisition) { a.Release() }

// often is how many distances of a second loss are tried in the short run.
func (u use) often() int {
	if u.nodes > 0 {
		return 2 // what is new in it is long enough
	}
	return 3
}

func usesOfMutex() []use {
	return []use{
		{name: "alone", path: "/locks/a", play: hold},
		{name: "alone, in our directory", path: "/locks/ours", ours: true, play: hold},
		{name: "new directory", path: "/new/and/deep", play: hold},
		{name: "after another", path: "/locks/a", others: true, play: hold},
		{name: "after another, in our directory", path: "/locks/ours", ours: true, others: true, play: hold},
		{name: "waits and leaves", path: "/locks/a", others: true, play: giveUp},
		{name: "leaves at once", path: "/locks/a", others: true, play: giveUpAtOnce},
		{name: "leaves at once, alone", path: "/new/one", play: giveUpAtOnce},
		{name: "leaves at once, alone in our directory", path: "/locks/ours", ours: true, play: giveUpAtOnce},
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
	*stage
	use
	loss
	direction faultnet.Direction
	nth       int // the frame that is lost, counted from the beginning of the story
	again     int // so many frames later one is lost with its connection; 0 for never

	began atomic.Bool
	base  [faultnet.Down + 1]int // frames before it began
	lost  atomic.Bool
	most  atomic.Int64 // nodes of this client at one time
}

// TestNoNodeIsLeftWhateverFrameIsLost loses each frame of each story in turn, in both directions, and
// another one soon after or none.
func TestNoNodeIsLeftWhateverFrameIsLost(t *testing.T) {
	trials, doubled, left := 0, 0, 0
	for _, st := range uses() {
		for _, how := range losses() {
			for _, direction := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
				for nth, there := 1, true; there && !t.Failed(); nth++ { // until there is no such frame
					for again := range reliability.Trials(st.often(), 8) {
						eventstest.Bubble(t, func(t *testing.T) {
							s := &scene{use: st, loss: how, direction: direction, nth: nth, again: again}
							s.stage = newStage(t, s.rule)
							defer func() {
								if t.Failed() {
									t.Errorf("in: %s; frame %d %s is lost %s, and another one %d later",
										st.name, nth, direction, how.name, again)
								}
							}()
							remain := s.run()
							there = s.lost.Load()
							if n := int(s.most.Load()); n > max(1, st.nodes) {
								doubled++
								t.Errorf("%d nodes of one contender at one time", n)
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
	if s.path == "/locks/a" {
		if err := s.srv.Create(s.path, nil); err != nil {
			s.Fatal(err)
		}
	}
	if s.ours {
		s.warm(s.victim, s.other, s.victim) // whoever makes the directory learns by the next listing that it is ours
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
	s.count()
	if a.Valid() {
		s.Error("valid after Done")
	}
	// Whoever comes next gets in, and does not wait longer than for the end of a session.
	start := time.Now()
	next := s.next(s.other, s.path).Acquire(context.Background())
	_ = await(s, "the next contender gets in", next.Granted())
	if took := time.Since(start); took > 2*stageTimeout {
		s.Errorf("the next contender waited for %v", took)
	}
	next.Release()
	_ = await(s, "the next contender is out", next.Done())
	time.Sleep(3 * stageTimeout) // and the network is back for long
	s.count()
	remain := s.everything()
	if len(remain) > 0 {
		s.Errorf("left before Close: %v", remain)
	}
	s.leave()
	return len(remain)
}

// warm has each of them hold the lock once.
func (s *scene) warm(cs ...*coordinator.Coordinator) {
	for _, c := range cs {
		a := s.next(c, s.path).Acquire(context.Background())
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
	case f.Direction != s.direction:
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

// everything returns the nodes of all who hold or wait, and the record of one who held.
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
		// Of two looks the second may find that a node which the other one has is gone: it then has no owner.
		if owner := s.srv.Owner(node); owner != 0 && owner != s.other.SessionID() {
			n++
		}
	}
	for most := s.most.Load(); most < int64(n) && !s.most.CompareAndSwap(most, int64(n)); {
		most = s.most.Load() // frames of both directions are counted at the same time
	}
	return n
}
