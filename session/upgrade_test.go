package session_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// upgradable is a seat that holds, in a directory that is known to be ours.
func (r *rig) upgradable() (u *seat, node events.Name) {
	r.Helper()
	r.warm()
	u = r.seatAt(session.Place{Dir: dir, Kind: events.KindUpgradable})
	u.want("Opened")
	return u, u.makes(1).Node
}

// over is a seat that is to upgrade another one.
func (r *rig) over(u *seat) *seat {
	r.Helper()
	s := r.seatAt(session.Place{Dir: dir, Kind: events.KindUpgrade, Over: u.Seat})
	s.want("Opened")
	return s
}

// TestAnUpgradeIsNotJoinedToARelease: its create depends on a node, and is no part of a release's request.
func TestAnUpgradeIsNotJoinedToARelease(t *testing.T) {
	inSession(t, func(r *rig) {
		u, node := r.upgradable()
		x, other := r.over(u), r.seat()
		other.want("Opened")
		const foreign = "of-somebody"
		if err := r.srv.Create(dir+"/"+foreign, nil); err != nil {
			r.Fatal(err)
		}
		asked := r.asked()
		r.together(func() {
			other.Delete(recipes.Delete{Epoch: 1, Node: foreign})
			x.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		if in := other.answer(); in != (recipes.Deleted{Epoch: 1}) {
			r.Errorf("the release was answered %+v", in)
		}
		if in, ok := x.answer().(recipes.Created); !ok || in.Node.Kind != events.KindUpgrade || in.Node.Seq <= node.Seq || in.Alone {
			r.Errorf("%+v behind %v", in, node)
		}
		if n := len(asked()); n != 2 {
			r.Errorf("%d kinds of requests, want two", n)
		}
	})
}

// TestAnUpgradeIsMadeForAHolderOnly: of one who is about to leave a request may be under way.
func TestAnUpgradeIsMadeForAHolderOnly(t *testing.T) {
	inSession(t, func(r *rig) {
		u, node := r.upgradable()
		x := r.over(u)
		r.together(func() {
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			x.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		if in, ok := x.answer().(recipes.Refused); !ok || in.Op != recipes.OpCreate {
			r.Errorf("answered %+v", in)
		}
		u.want("Deleted")
		r.wantChildren(0)
	})
}

// TestTheLastHasBothNodes: whoever it is, and by what way it goes.
func TestTheLastHasBothNodes(t *testing.T) {
	begin := func(r *rig) (u, x *seat, node events.Name, made recipes.Created) {
		u, node = r.upgradable()
		x = r.over(u)
		made = x.makes(1)
		listed := x.list(1)
		if listed.Own.Name != made.Node || listed.Own.Token == 0 {
			r.Errorf("%+v found for %+v", listed.Own, made)
		}
		x.Claim(recipes.Claim{Epoch: 1, Node: made.Node.Text})
		x.want("Claimed")
		return u, x, node, made
	}
	for name, play := range map[string]func(r *rig, u, x *seat, node events.Name, made recipes.Created){
		"the upgradable reader": func(r *rig, u, x *seat, node events.Name, made recipes.Created) {
			x.delete(made.Node.Text)
			r.wantChildren(1)
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.want("Deleted")
		},
		"the upgrade": func(r *rig, u, x *seat, node events.Name, made recipes.Created) {
			asked := r.asked()
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.want("Deleted")
			r.wantChildren(2)
			x.delete(made.Node.Text)
			x.Close()
			r.settle()
			if all := asked(); len(all) != 1 {
				r.Errorf("requests %v, want one transaction", all)
			}
		},
		"the upgrade, which has no node any more": func(r *rig, u, x *seat, node events.Name, _ recipes.Created) {
			u.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			u.want("Deleted")
			for _, child := range r.srv.Children(dir) {
				if child != node.Text {
					if err := r.srv.Delete(dir + "/" + child); err != nil {
						r.Fatal(err)
					}
				}
			}
			x.want("Gone")
			x.Close()
			r.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				u, x, node, made := begin(r)
				play(r, u, x, node, made)
				u.Close()
				x.Close()
				r.wantChildren(0)
				r.settle()
				if n := r.s.Sharing(); n != 0 {
					r.Errorf("%d seats share something", n)
				}
			})
		})
	}
}

// TestTheTokenOfAnUpgrade: smaller than that of the first writer between who stands, and its own zxid if there is none.
func TestTheTokenOfAnUpgrade(t *testing.T) {
	inSession(t, func(r *rig) {
		u, _ := r.upgradable()
		x := r.over(u)
		own := x.makes(1)
		free := x.list(1).Own.Token
		x.delete(own.Node.Text)
		var zxids []int64
		var writers []string
		for range 2 {
			w := r.seatAt(session.Place{Dir: dir, Kind: events.KindWrite})
			w.want("Opened")
			writers = append(writers, w.makes(1).Node.Text)
			zxids = append(zxids, w.list(1).Own.Token)
		}
		x = r.over(u)
		x.makes(1)
		for i, zxid := range zxids {
			if token := x.list(1).Own.Token; token != zxid-1 || token <= free {
				r.Errorf("token %d, want the last before %d, and more than %d", token, zxid, free)
			}
			if err := r.srv.Delete(dir + "/" + writers[i]); err != nil {
				r.Fatal(err)
			}
		}
		if token := x.list(1).Own.Token; token <= zxids[1] {
			r.Errorf("token %d behind writers of %v who have gone", token, zxids)
		}
	})
}
