package session_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	ourData   = "zkgrant\n"
	theirData = "somebody's own data"
)

// warm leaves the directory empty, and the session knowing that it is ours.
func (r *rig) warm() {
	r.Helper()
	s := r.seat()
	s.want("Opened")
	node := s.create(1)
	s.list(1)
	s.delete(node.Text)
	s.Close()
	s.fresh()
	r.wantData(ourData)
}

// wantData checks the directory's data.
func (r *rig) wantData(want string) {
	r.Helper()
	if got, _ := r.srv.Data(dir); string(got) != want {
		r.Errorf("the directory's data are %q, want %q", got, want)
	}
}

// floorOf is a directory's data with the floor.
func floorOf(czxid int64) string { return fmt.Sprintf("zkgrant\nfloor 0x%x\n", czxid) }

// asked counts the requests that are not pings, by what they ask for.
func (r *rig) asked() func() map[zktest.Op]int {
	counts := map[zktest.Op]int{}
	r.srv.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op != zktest.OpPing {
			counts[q.Op]++ // one connection, one request at a time
		}
		return zktest.Pass()
	})
	return func() map[zktest.Op]int {
		synctest.Wait()
		was := counts
		counts = map[zktest.Op]int{}
		return was
	}
}

// makes asks for a node, and returns the answer.
func (s *seat) makes(attempt recipes.Attempt) recipes.Created {
	s.r.Helper()
	s.Create(recipes.Create{Epoch: 1, Attempt: attempt})
	created, ok := s.answer().(recipes.Created)
	if !ok {
		s.r.Fatal("not created")
	}
	return created
}

// admin is a plain client, for what others may do.
func (r *rig) admin() *zk.Conn {
	r.Helper()
	conn, news, err := zk.Connect([]string{r.srv.Addr()}, timeout, zk.WithLogInfo(false),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return r.srv.DialContext(context.Background(), network, address)
		}))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		conn.Close()
		for range news { // closed when the client's goroutines have ended
		}
	})
	return conn
}

// denyWriting takes everybody's permission to write the directory's data.
func (r *rig) denyWriting() {
	r.Helper()
	if _, err := r.admin().SetACL(dir, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1); err != nil {
		r.Fatal(err)
	}
}

// TestOneRequestForALockThatIsFree: the answer to the create says that nobody else is
// there, and what the fencing token is.
func TestOneRequestForALockThatIsFree(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		s := r.seat()
		s.want("Opened")
		asked := r.asked()
		created := s.makes(1)
		if got := asked(); len(got) != 1 || got[zktest.OpMulti] != 1 {
			t.Errorf("asked %v", got)
		}
		r.wantData(ourData)
		if own := s.list(1).Own; !created.Alone || !created.Fresh || created.Token != own.Token || created.Node != own.Name {
			t.Errorf("%+v, and a listing says %+v", created, own)
		}
	})
}

// TestACreateSeesWhoStandsThere, whoever that is, and whatever it calls itself.
func TestACreateSeesWhoStandsThere(t *testing.T) {
	for _, other := range []string{"lock-0000000007", "x-lock-0000000000", "stranger"} {
		inSession(t, func(r *rig) {
			r.warm()
			s := r.seat()
			s.want("Opened")
			r.plant(other)
			if created := s.makes(1); created.Alone || created.Fresh || created.Token != 0 {
				t.Errorf("beside %s: %+v", other, created)
			}
		})
	}
}

// TestAJoinerLeavesTheFloor of a directory in which somebody stood the last time.
func TestAJoinerLeavesTheFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		r.plant("lock-0000000007")
		first, second := r.seat(), r.seat()
		first.want("Opened")
		second.want("Opened")
		first.create(1)
		first.list(1)
		if err := r.srv.SetData(dir, []byte(floorOf(0x77))); err != nil {
			t.Fatal(err)
		}
		asked := r.asked()
		if created := second.makes(1); created.Alone {
			t.Errorf("%+v", created)
		}
		if got := asked(); len(got) != 1 || got[zktest.OpCreate] != 1 {
			t.Errorf("asked %v", got)
		}
		r.wantData(floorOf(0x77))
	})
}

// TestSomebodysDataAreNeverWritten, however often the lock is taken.
func TestSomebodysDataAreNeverWritten(t *testing.T) {
	for _, data := range []string{"", "zkgrant", theirData} {
		inSession(t, func(r *rig) {
			if err := r.srv.Create(dir, []byte(data)); err != nil {
				t.Fatal(err)
			}
			s := r.seat()
			s.want("Opened")
			for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
				if created := s.makes(attempt); created.Alone {
					t.Errorf("%+v", created)
				}
				s.List(recipes.List{Epoch: 1, Attempt: attempt})
				listed := s.answer().(recipes.Listed)
				if listed.Own.Token == 0 {
					t.Fatalf("%+v", listed)
				}
				s.Delete(recipes.Delete{Epoch: 1, Node: listed.Own.Name.Text, Floor: true})
				s.want("Gone Deleted")
				r.wantData(data)
			}
		})
	}
}

// TestAnotherDirectoryByTheSameName: it is noticed by its Stat that the directory is
// not the one that was ours.
func TestAnotherDirectoryByTheSameName(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		if err := r.srv.Delete(dir); err != nil {
			t.Fatal(err)
		}
		if err := r.srv.Create(dir, nil); err != nil {
			t.Fatal(err)
		}
		s := r.seat()
		s.want("Opened")
		created := s.makes(1) // which cannot know
		if created.Alone {
			t.Errorf("%+v", created)
		}
		if err := r.srv.SetData(dir, []byte(theirData)); err != nil {
			t.Fatal(err)
		}
		s.list(1)
		s.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: true})
		s.want("Gone Deleted")
		if created := s.makes(2); created.Alone {
			t.Errorf("%+v", created)
		}
		r.wantData(theirData)
	})
}

// TestADirectoryMadeBySomebodyElseMeanwhile: ours was removed, and before we have made
// it again somebody else has.
func TestADirectoryMadeBySomebodyElseMeanwhile(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		if err := r.srv.Delete(dir); err != nil {
			t.Fatal(err)
		}
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpCreateContainer && !r.srv.Exists(dir) {
				if err := r.srv.Create(dir, []byte(theirData)); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass()
		})
		s := r.seat()
		s.want("Opened")
		if created := s.makes(1); created.Alone {
			t.Errorf("%+v", created)
		}
		r.wantData(theirData)
	})
}

// TestWhatMayNotBeWrittenIsNotTriedAgain: a Multi that is refused because of the
// directory's data has not made the node, nor removed it.
func TestWhatMayNotBeWrittenIsNotTriedAgain(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		r.denyWriting()
		s := r.seat()
		s.want("Opened")
		for attempt, multis := range []int{1, 0, 0} {
			asked := r.asked()
			created := s.makes(recipes.Attempt(attempt + 1))
			if got := asked(); created.Alone || got[zktest.OpMulti] != multis || got[zktest.OpCreate] != 1 {
				t.Errorf("attempt %d: %+v, asked %v", attempt+1, created, got)
			}
			s.delete(created.Node.Text)
		}
	})
}
