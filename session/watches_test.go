package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// plant makes nodes for the test to watch.
func (r *rig) plant(names ...string) {
	r.Helper()
	for _, name := range names {
		if err := r.srv.Create(dir+"/"+name, nil); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *rig) delete(name string) {
	r.Helper()
	if err := r.srv.Delete(dir + "/" + name); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) setData(name string) {
	r.Helper()
	if err := r.srv.SetData(dir+"/"+name, []byte(time.Now().String())); err != nil {
		r.Fatal(err)
	}
}

// watching is a seat that watches a node.
func (r *rig) watching(name string) *seat {
	r.Helper()
	s := r.seat()
	s.want("Opened")
	s.watch(name)
	s.want("")
	return s
}

func (s *seat) watch(name string) { s.Watch(recipes.Watch{Epoch: 1, Node: name}) }

// wantGone checks that the node's end, and nothing else, was told once.
func (s *seat) wantGone(name string) {
	s.r.Helper()
	if in := s.want("Gone")[0]; in != (recipes.Gone{Epoch: 1, Node: name}) {
		s.r.Errorf("told %+v, want the end of %s", in, name)
	}
}

func TestWatch(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n", "other")
		s := r.watching("n")
		r.delete("other")
		s.want("")
		r.delete("n")
		s.wantGone("n")
		s.watch("n") // which is not there
		s.wantGone("n")
		time.Sleep(time.Minute)
		s.want("")
		if n := r.srv.Watches(); n != 0 {
			t.Errorf("%d watches left", n)
		}
	})
}

// The client hands out events and replies by different goroutines. If both come in one segment, either may be first.
func TestAnEventMayOvertakeTheReply(t *testing.T) {
	inSession(t, func(r *rig) {
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpGetData {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		s := r.seat()
		s.want("Opened")
		for i := range 300 {
			name := fmt.Sprint("n", i)
			r.plant(name)
			s.watch(name)
			synctest.Wait()
			r.delete(name) // the event waits behind the reply
			s.want("")
			time.Sleep(time.Second)
			s.wantGone(name)
		}
	})
}

// A watch fires when the data change, and then it is gone. Nobody is interested in data.
func TestChangedDataArmTheWatchAgain(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		a, b := r.watching("n"), r.watching("n")
		for range 3 {
			r.setData("n")
			a.want("")
			b.want("")
			if n := r.srv.Watches(); n != 1 {
				t.Errorf("%d watches", n)
			}
		}
		r.delete("n")
		a.wantGone("n")
		b.wantGone("n")

		// It goes before the watch is armed again.
		for i := range 300 {
			name := fmt.Sprint("n", i)
			r.plant(name)
			a.watch(name)
			synctest.Wait()
			r.setData(name)
			r.delete(name)
			a.wantGone(name)
		}
		time.Sleep(time.Minute)
		a.want("")
		if n := r.srv.Watches(); n != 0 {
			t.Errorf("%d watches left", n)
		}
	})
}

// The connection breaks before or after the request that arms the watch again.
func TestArmingAgainSurvivesABreak(t *testing.T) {
	for name, action := range map[string]zktest.Action{"before": zktest.CutBefore(), "after": zktest.CutAfter()} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.plant("n")
				s := r.watching("n")
				cut{1, action}.intercept(r.srv)
				r.setData("n")
				s.want("Suspended")
				r.settle()
				s.want("Reconnected")
				if n := r.srv.Watches(); n != 1 {
					t.Errorf("%d watches", n)
				}
				r.delete("n")
				s.wantGone("n")
			})
		})
	}
}

// The client cannot drop a watch, so one path is armed once, however many are interested.
func TestAPathIsArmedOnce(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		seats := make([]*seat, 20)
		for i := range seats {
			seats[i] = r.watching("n")
			seats[i].watch("n")
		}
		synctest.Wait()
		if n := r.srv.Requests(zktest.OpGetData); n != 1 {
			t.Errorf("%d getData for 40 watches on one node", n)
		}
		r.delete("n")
		for _, s := range seats {
			s.wantGone("n")
		}
	})
}

// Two are interested, one of them arms the watch for both, and that fails.
func TestArmingFailsForTwo(t *testing.T) {
	for name, c := range map[string]struct {
		action       zktest.Action
		first, other string
	}{
		"missing": {zktest.Fail(zktest.NoNode), "Gone", ""},
		"denied":  {zktest.Fail(zktest.NoAuth), "Refused", ""},
		"before":  {zktest.CutBefore(), "Suspended Unknown Reconnected", "Suspended Unknown Reconnected"},
		"after":   {zktest.CutAfter(), "Suspended Unknown Reconnected", "Suspended Unknown Reconnected"},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.plant("n")
				goOn := make(chan struct{})
				r.srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op != zktest.OpGetData || q.Count > 1 {
						return zktest.Pass()
					}
					<-goOn
					return c.action
				})
				first, other := r.seat(), r.seat()
				first.want("Opened")
				other.want("Opened")
				first.watch("n")
				synctest.Wait()
				other.watch("n")
				synctest.Wait()
				close(goOn)
				r.settle()
				first.want(c.first)
				other.want(c.other)
				r.delete("n")
				other.wantGone("n")
				first.want("")
			})
		})
	}
}

// The watch cannot be armed again because others may not read the node any more.
func TestArmingAgainIsDenied(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.watching("n")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpGetData {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		r.setData("n")
		if in := s.want("Unknown")[0]; in != (recipes.Unknown{Epoch: 1, Op: recipes.OpWatch}) {
			t.Errorf("%+v", in)
		}
		s.watch("n")
		if in := s.want("Refused")[0]; in != (recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: "n"}) {
			t.Errorf("%+v", in)
		}
	})
}

func TestOneSeatWatchesItsOwnNodeAndAnother(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("a", "b", "c")
		s := r.seat()
		s.want("Opened")
		own := s.create(1).Text
		s.list(1)
		s.watch("a")
		s.watch("b") // takes the place of a
		s.want("")
		r.delete("a")
		s.want("")
		r.delete("b")
		s.wantGone("b")
		r.setData(own)
		s.want("")
		r.delete(own)
		s.wantGone(own)
	})
}

func TestAClosedSeatHearsNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		closed, other := r.watching("n"), r.watching("n")
		own := closed.create(1).Text
		closed.list(1)
		closed.Close()
		r.setData("n")
		r.setData(own)
		synctest.Wait()
		r.delete("n")
		r.delete(own)
		closed.want("")
		other.wantGone("n")
		if n := r.srv.Watches(); n != 0 {
			t.Errorf("%d watches on nodes that nobody is interested in", n)
		}
		// A watch that was on its way when the seat was closed.
		r.plant("late")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpGetData {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		other.watch("late")
		synctest.Wait()
		other.Close()
		time.Sleep(2 * time.Second)
		r.delete("late")
		other.want("")

		// The same while there is no connection, so that it is carried out after the closing.
		r.plant("later")
		last := r.seat()
		last.want("Opened")
		r.srv.Down(true)
		synctest.Wait()
		last.watch("later")
		last.Close()
		r.srv.Down(false)
		r.settle()
		time.Sleep(2 * time.Second)
		last.want("Suspended")
		r.delete("later")
		last.want("")
	})
}

// What was watched in one session is of no interest in the next.
func TestWatchesEndWithTheirSession(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.watching("n")
		if err := r.srv.Expire(r.only()); err != nil {
			t.Fatal(err)
		}
		r.until("there is another session", func() bool { return s.Session(2) != 0 })
		r.delete("n")
		s.want("Suspended Expired Opened")
		s.Watch(recipes.Watch{Epoch: 2, Node: "n"})
		if in := s.answer(); in != (recipes.Gone{Epoch: 2, Node: "n"}) {
			t.Errorf("%+v", in)
		}
	})
}
