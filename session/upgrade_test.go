package session_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// TestAnUpgradeIsNotJoinedToARelease: its create depends on a node, and is no part of a release's request.
func TestAnUpgradeIsNotJoinedToARelease(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		u, node := r.Upgradable()
		x, other := r.Over(u), r.Seat()
		other.Want("Opened")
		const foreign = "of-somebody"
		if err := r.Server.Create(sessiontest.Dir+"/"+foreign, nil); err != nil {
			r.Fatal(err)
		}
		asked := r.Asked()
		r.Together(func() {
			other.Delete(recipes.Delete{Epoch: 1, Node: foreign})
			x.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		if in := other.Answer(); in != (recipes.Deleted{Epoch: 1}) {
			r.Errorf("the release was answered %+v", in)
		}
		if in, ok := x.Answer().(recipes.Created); !ok || in.Node.Kind != events.KindUpgrade || in.Node.Seq <= node.Seq || in.Alone {
			r.Errorf("%+v behind %v", in, node)
		}
		if n := len(asked()); n != 2 {
			r.Errorf("%d kinds of requests, want two", n)
		}
	})
}

// TestAnUpgradeIsMadeForAHolderOnly: of one who is about to leave a request may be under way.
func TestAnUpgradeIsMadeForAHolderOnly(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		u, node := r.Upgradable()
		x := r.Over(u)
		r.Together(func() {
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			x.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		if in, ok := x.Answer().(recipes.Refused); !ok || in.Op != recipes.OpCreate {
			r.Errorf("answered %+v", in)
		}
		u.Want("Deleted")
		r.WantChildren(0)
	})
}

// TestTheLastHasBothNodes: whoever it is, and by what way it goes.
func TestTheLastHasBothNodes(t *testing.T) {
	begin := func(r *sessiontest.Rig) (u, x *sessiontest.Seat, node events.Name, made recipes.Created) {
		u, node = r.Upgradable()
		x = r.Over(u)
		made = x.Makes(1)
		listed := x.ListNodes(1)
		if listed.Own.Name != made.Node || listed.Own.Token == 0 {
			r.Errorf("%+v found for %+v", listed.Own, made)
		}
		x.Claim(recipes.Claim{Epoch: 1, Node: made.Node.Text})
		x.Want("Claimed")
		return u, x, node, made
	}
	for name, play := range map[string]func(r *sessiontest.Rig, u, x *sessiontest.Seat, node events.Name, made recipes.Created){
		"the upgradable reader": func(r *sessiontest.Rig, u, x *sessiontest.Seat, node events.Name, made recipes.Created) {
			x.DeleteNode(made.Node.Text)
			r.WantChildren(1)
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.Want("Deleted")
		},
		"the upgrade": func(r *sessiontest.Rig, u, x *sessiontest.Seat, node events.Name, made recipes.Created) {
			asked := r.Asked()
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.Want("Deleted")
			r.WantChildren(2)
			x.DeleteNode(made.Node.Text)
			x.Close()
			r.Settle()
			if all := asked(); len(all) != 1 {
				r.Errorf("requests %v, want one transaction", all)
			}
		},
		"the upgrade, which has no node any more": func(r *sessiontest.Rig, u, x *sessiontest.Seat, node events.Name, _ recipes.Created) {
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.Want("Deleted")
			for _, child := range r.Server.Children(sessiontest.Dir) {
				if child != node.Text {
					if err := r.Server.Delete(sessiontest.Dir + "/" + child); err != nil {
						r.Fatal(err)
					}
				}
			}
			x.Want("Gone")
			x.Close()
			r.Settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			sessiontest.InSession(t, func(r *sessiontest.Rig) {
				u, x, node, made := begin(r)
				play(r, u, x, node, made)
				u.Close()
				x.Close()
				r.WantChildren(0)
				r.Settle()
				if n := r.Session.Sharing(); n != 0 {
					r.Errorf("%d seats share something", n)
				}
			})
		})
	}
}

// TestTheTokenOfAnUpgrade: smaller than that of the first writer between who stands, and its own zxid if there is none.
func TestTheTokenOfAnUpgrade(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		u, _ := r.Upgradable()
		x := r.Over(u)
		own := x.Makes(1)
		free := x.ListNodes(1).Own.Token
		x.DeleteNode(own.Node.Text)
		var zxids []int64
		var writers []string
		for range 2 {
			w := r.SeatAt(session.Place{Dir: sessiontest.Dir, Kind: events.KindWrite})
			w.Want("Opened")
			writers = append(writers, w.Makes(1).Node.Text)
			zxids = append(zxids, w.ListNodes(1).Own.Token)
		}
		x = r.Over(u)
		x.Makes(1)
		for i, zxid := range zxids {
			if token := x.ListNodes(1).Own.Token; token != zxid-1 || token <= free {
				r.Errorf("token %d, want the last before %d, and more than %d", token, zxid, free)
			}
			if err := r.Server.Delete(sessiontest.Dir + "/" + writers[i]); err != nil {
				r.Fatal(err)
			}
		}
		if token := x.ListNodes(1).Own.Token; token <= zxids[1] {
			r.Errorf("token %d behind writers of %v who have gone", token, zxids)
		}
	})
}
