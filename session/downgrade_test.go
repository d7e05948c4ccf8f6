package session_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// writer is a seat that writes, in a directory that is known to be ours. Alone there it holds.
func (r *rig) writer() (w *seat, node events.Name) {
	r.Helper()
	r.warm()
	w = r.seatAt(session.Place{Dir: dir, Kind: events.KindWrite})
	w.want("Opened")
	return w, w.makes(1).Node
}

// inPlaceOf is a seat that is to take another one's place.
func (r *rig) inPlaceOf(w *seat) *seat {
	r.Helper()
	s := r.seatAt(session.Place{Dir: dir, Kind: events.KindRead, In: w.Seat})
	s.want("Opened")
	return s
}

// TestAPlaceIsNotJoinedToARelease: a create in somebody's place says where, and is no part of a release's request.
func TestAPlaceIsNotJoinedToARelease(t *testing.T) {
	inSession(t, func(r *rig) {
		w, node := r.writer()
		reader, other := r.inPlaceOf(w), r.seat()
		other.want("Opened")
		const foreign = "of-somebody"
		if err := r.srv.Create(dir+"/"+foreign, nil); err != nil {
			r.Fatal(err)
		}
		r.together(func() {
			other.Delete(recipes.Delete{Epoch: 1, Node: foreign})
			reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		if in := other.answer(); in != (recipes.Deleted{Epoch: 1}) {
			r.Errorf("the release was answered %+v", in)
		}
		if in, ok := reader.answer().(recipes.Created); !ok || in.Node.Seq != node.Seq {
			r.Errorf("%+v in the place of %v", in, node)
		}
	})
}

// TestAPlaceIsGivenByAHolderOnly: of one who does not hold, or who is about to leave, a request may be under way that
// would be right without a reader in its place.
func TestAPlaceIsGivenByAHolderOnly(t *testing.T) {
	refused := func(r *rig, reader *seat) {
		r.Helper()
		if in, ok := reader.answer().(recipes.Refused); !ok || in.Op != recipes.OpCreate {
			r.Errorf("answered %+v", in)
		}
	}
	t.Run("waits", func(t *testing.T) {
		inSession(t, func(r *rig) {
			r.writer()
			second := r.seatAt(session.Place{Dir: dir, Kind: events.KindWrite})
			second.want("Opened")
			second.makes(1)
			second.list(1)
			reader := r.inPlaceOf(second)
			reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
			refused(r, reader)
			if nodes := r.srv.Children(dir); len(nodes) != 2 {
				r.Errorf("nodes %v", nodes)
			}
		})
	})
	t.Run("leaves", func(t *testing.T) {
		inSession(t, func(r *rig) {
			w, node := r.writer()
			reader := r.inPlaceOf(w)
			asked := r.asked()
			r.together(func() {
				w.Delete(recipes.Delete{Epoch: 1, Node: node.Text, Floor: true})
				reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
			})
			refused(r, reader)
			if n := len(asked()); n != 1 {
				r.Errorf("%d kinds of requests, want the release's alone", n)
			}
		})
	})
}

// TestAWriterThatGaveItsPlaceLeavesNoFloor: the reader in its place is older than whoever reads the floor.
func TestAWriterThatGaveItsPlaceLeavesNoFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		w, node := r.writer()
		reader := r.inPlaceOf(w)
		made := reader.makes(1)
		if made.Node.Seq != node.Seq || made.Alone {
			r.Errorf("%+v in the place of %v", made, node)
		}
		if !r.srv.Exists(dir + "/" + made.Node.Text) {
			r.Errorf("nodes %v, and no %s", r.srv.Children(dir), made.Node.Text)
		}
		w.Delete(recipes.Delete{Epoch: 1, Node: node.Text, Floor: true})
		w.want("Deleted")
		r.wantData(ourData)
	})
}
