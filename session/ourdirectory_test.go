package session_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestOneRequestForALockThatIsFree: the answer to the create says that there is no other
// contender, and has the fencing token.
func TestOneRequestForALockThatIsFree(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		s := r.Seated()
		asked := r.Asked()
		created := s.MakesAlone()
		r.WantAsked(asked(), zktest.OpMulti)
		r.WantData(ourData)
		if own := s.Look(1, false).Own; created.Token != own.Token || created.Node != own.Name {
			t.Errorf("the create says %+v, want what a listing says: %+v", created, own)
		}
	})
}

// TestACreateSeesOtherContenders: they may be of any library, and have any name.
func TestACreateSeesOtherContenders(t *testing.T) {
	inSession(t, func(r *rig) {
		for _, other := range []string{"lock-0000000007", "x-lock-0000000000", "stranger"} {
			r.Warm()
			s := r.Seated()
			r.Plant(other)
			created := s.Makes(1)
			expect(t, !created.Alone && !created.Fresh && created.Token == 0,
				"beside %s the create says %+v, want neither alone nor a token", other, created)
			r.DeleteNode(other)
			s.DeleteNode(created.Node.Text)
		}
	})
}

// TestAJoinerLeavesTheFloor: it does so in a directory that last had another contender.
func TestAJoinerLeavesTheFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		r.Plant("lock-0000000007")
		first, second := r.Seated(), r.Seated()
		first.Makes(1)
		first.Look(1, false)
		r.Write(floorOf(0x77))
		asked := r.Asked()
		second.MakesBeside(1)
		r.WantAsked(asked(), zktest.OpCreate)
		r.WantData(floorOf(0x77))
	})
}

// TestForeignDataAreNeverWritten: that holds however often the lock is acquired.
func TestForeignDataAreNeverWritten(t *testing.T) {
	for _, data := range []string{"", "zkgrant", theirData} {
		inSession(t, func(r *rig) {
			r.Make(lockDir, data)
			s := r.Seated()
			for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
				s.MakesBeside(attempt)
				own := s.Look(attempt, false).Own
				if own.Token == 0 {
					t.Fatalf("the listing has %+v, want the own node's token", own)
				}
				s.Do(recipes.Delete{Epoch: 1, Node: own.Name, Floor: true})
				s.Want("Gone Deleted")
				r.WantData(data)
			}
		})
	}
}

// TestAnotherDirectoryByTheSameName: the Stat shows that the directory is not the one
// that was ours.
func TestAnotherDirectoryByTheSameName(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		r.Must(r.Server.Delete(lockDir))
		r.Make(lockDir, "")
		s := r.Seated()
		created := s.MakesBeside(1) // it cannot know
		r.Write(theirData)
		s.Look(1, false)
		s.Do(recipes.Delete{Epoch: 1, Node: created.Node, Floor: true})
		s.Want("Gone Deleted")
		s.MakesBeside(2)
		r.WantData(theirData)
	})
}

// TestADirectoryMadeByAnotherMeanwhile: ours was removed, and another client creates it
// again before us.
func TestADirectoryMadeByAnotherMeanwhile(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		r.Must(r.Server.Delete(lockDir))
		r.Once(zktest.Pass(), func(q zktest.Request) bool {
			if q.Op == zktest.OpCreateContainer && !r.Server.Exists(lockDir) {
				r.Make(lockDir, theirData)
			}
			return false
		})
		r.Seated().MakesBeside(1)
		r.WantData(theirData)
	})
}

// TestWhatMayNotBeWrittenIsNotTriedAgain: a Multi that is refused because of the
// directory's data has neither created nor deleted the node.
func TestWhatMayNotBeWrittenIsNotTriedAgain(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		r.DenyWriting()
		s := r.Seated()
		for attempt, multis := range []int{1, 0, 0} {
			asked := r.Asked()
			created := s.MakesBeside(recipes.Attempt(attempt + 1))
			if got := asked(); got[zktest.OpMulti] != multis || got[zktest.OpCreate] != 1 {
				t.Errorf("attempt %d asks for %v, want %d Multis and a create", attempt+1, got, multis)
			}
			s.DeleteNode(created.Node.Text)
		}
	})
}
