package session_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A reader takes the place of a writer.

// TestAPlaceIsNotJoinedToARelease: a create in another seat's place names the place, and is no part of a release's request.
func TestAPlaceIsNotJoinedToARelease(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader, other := r.InPlaceOf(w), r.Seat()
		other.Want("Opened")
		const foreign = "of-another"
		r.Must(r.Server.Create(sessiontest.Dir+"/"+foreign, nil))
		asked := r.Asked()
		r.Together(func() {
			other.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: foreign}})
			reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
		})
		other.WantAnswer(recipes.Deleted{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Created](reader); in.Node.Seq != node.Seq {
			r.Errorf("the reader is answered %+v, want the place of %v", in, node)
		}
		r.WantAsked(asked(), zktest.OpDelete, zktest.OpMulti)
	})
}

// TestAPlaceIsGivenByAHolderOnly: a seat that does not hold, or is about to leave, may have a request under way that would be right
// only without a reader in its place.
func TestAPlaceIsGivenByAHolderOnly(t *testing.T) {
	sessiontest.Run(t, "waits", func(r *sessiontest.Rig) {
		r.Writer()
		second := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Kind: events.KindWrite})
		second.Makes(1)
		second.ListNodes(1)
		reader := r.InPlaceOf(second)
		reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
		refusesAPlace(r, reader)
		r.WantChildren(2)
	})
	sessiontest.Run(t, "leaves", func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader := r.InPlaceOf(w)
		asked := r.Asked()
		r.Together(func() {
			w.Do(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
		})
		refusesAPlace(r, reader)
		if n := len(asked()); n != 1 {
			r.Errorf("%d kinds of requests, want the release's alone", n)
		}
	})
}

// TestAWriterThatGaveItsPlaceLeavesNoFloor: the reader in its place is older than the reader of the floor.
func TestAWriterThatGaveItsPlaceLeavesNoFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader := r.InPlaceOf(w)
		made := reader.Makes(1)
		if made.Node.Seq != node.Seq || !made.Alone {
			r.Errorf("the reader has %+v, want the place of %v, and no older contender", made, node)
		}
		if owner := r.Server.Owner(sessiontest.Dir + "/" + made.Node.Text); owner != r.Only() {
			r.Errorf("%s is owned by 0x%x, want a node of the session", made.Node.Text, owner)
		}
		w.Do(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		w.Want("Deleted")
		r.WantData(sessiontest.OurData)
	})
}
