package session_test

import (
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const theirData = "foreign data"

// floorOf is a directory's data with the floor.
func floorOf(czxid int64) string { return fmt.Sprintf("zkgrant\nfloor 0x%x\n", czxid) }

// TestOneRequestForALockThatIsFree: the answer to the create says that no other contender is there, and what the fencing token is.
func TestOneRequestForALockThatIsFree(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		asked := r.Asked()
		created := s.Makes(1)
		r.WantAsked(asked(), zktest.OpMulti)
		r.WantData(sessiontest.OurData)
		if own := s.ListNodes(1).Own; !created.Alone || !created.Fresh || created.Token != own.Token || created.Node != own.Name {
			t.Errorf("the create says %+v, want that it is alone, and what a listing says: %+v", created, own)
		}
	})
}

// TestACreateSeesOtherContenders, of any library, and with any name.
func TestACreateSeesOtherContenders(t *testing.T) {
	for _, other := range []string{"lock-0000000007", "x-lock-0000000000", "stranger"} {
		sessiontest.InSession(t, func(r *sessiontest.Rig) {
			r.Warm()
			s := r.Seated()
			r.Plant(other)
			if created := s.Makes(1); created.Alone || created.Fresh || created.Token != 0 {
				t.Errorf("beside %s the create says %+v, want neither alone nor a token", other, created)
			}
		})
	}
}

// TestAJoinerLeavesTheFloor of a directory that had another contender the last time.
func TestAJoinerLeavesTheFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Plant("lock-0000000007")
		first, second := r.Seated(), r.Seated()
		first.CreateNode(1)
		first.ListNodes(1)
		r.Must(r.Server.SetData(sessiontest.Dir, []byte(floorOf(0x77))))
		asked := r.Asked()
		second.MakesBeside(1)
		r.WantAsked(asked(), zktest.OpCreate)
		r.WantData(floorOf(0x77))
	})
}

// TestForeignDataAreNeverWritten, however often the lock is taken.
func TestForeignDataAreNeverWritten(t *testing.T) {
	for _, data := range []string{"", "zkgrant", theirData} {
		sessiontest.InSession(t, func(r *sessiontest.Rig) {
			r.Must(r.Server.Create(sessiontest.Dir, []byte(data)))
			s := r.Seated()
			for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
				s.MakesBeside(attempt)
				s.Do(recipes.List{Epoch: 1, Attempt: attempt})
				listed := sessiontest.AnswerOf[recipes.Listed](s)
				if listed.Own.Token == 0 {
					t.Fatalf("the listing has %+v, want the own node's token", listed)
				}
				s.Do(recipes.Delete{Epoch: 1, Node: listed.Own.Name, Floor: true})
				s.Want("Gone Deleted")
				r.WantData(data)
			}
		})
	}
}

// TestAnotherDirectoryByTheSameName: its Stat shows that the directory is not the one that was ours.
func TestAnotherDirectoryByTheSameName(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Must(r.Server.Delete(sessiontest.Dir))
		r.Must(r.Server.Create(sessiontest.Dir, nil))
		s := r.Seated()
		created := s.Makes(1) // which cannot know
		if created.Alone {
			t.Errorf("%+v", created)
		}
		r.Must(r.Server.SetData(sessiontest.Dir, []byte(theirData)))
		s.ListNodes(1)
		s.Do(recipes.Delete{Epoch: 1, Node: created.Node, Floor: true})
		s.Want("Gone Deleted")
		s.MakesBeside(2)
		r.WantData(theirData)
	})
}

// TestADirectoryMadeByAnotherMeanwhile: ours was removed, and another client makes it again before we do.
func TestADirectoryMadeByAnotherMeanwhile(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Must(r.Server.Delete(sessiontest.Dir))
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpCreateContainer && !r.Server.Exists(sessiontest.Dir) {
				if err := r.Server.Create(sessiontest.Dir, []byte(theirData)); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass()
		})
		s := r.Seated()
		s.MakesBeside(1)
		r.WantData(theirData)
	})
}

// TestWhatMayNotBeWrittenIsNotTriedAgain: a Multi that is refused because of the directory's data has not made the node, nor removed
// it.
func TestWhatMayNotBeWrittenIsNotTriedAgain(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.DenyWriting()
		s := r.Seated()
		for attempt, multis := range []int{1, 0, 0} {
			asked := r.Asked()
			created := s.Makes(recipes.Attempt(attempt + 1))
			if got := asked(); created.Alone || got[zktest.OpMulti] != multis || got[zktest.OpCreate] != 1 {
				t.Errorf("attempt %d: %+v, asked for %v; want %d Multis and a create beside others", attempt+1, created, got, multis)
			}
			s.DeleteNode(created.Node.Text)
		}
	})
}
