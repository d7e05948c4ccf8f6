package recipes

// An upgradable reader and its upgrade, for the explorer: two clients of one session, of which the
// second asks for the write lock while the first holds.

const (
	raiseBelow  uint8 = 1 << iota // an upgradable reader
	raiseAbove                    // its upgrade
	raiseOwns                     // an upgrade that has the upgradable reader's node as well
	raiseParted                   // an upgradable reader that has given its node up, which an upgrade has
)

func raiseOf(rule Rule) uint8 {
	switch rule.(type) {
	case Upgradable:
		return raiseBelow
	case Upgrade:
		return raiseAbove
	default:
		return 0
	}
}

// upgradeOf is the form of an upgrade of a node.
func upgradeOf(below uint8) form { return formUpgrade | form(below+1)<<inPlace }

// below returns the node that an upgrade belongs to, or noNode.
func (f form) below() uint8 {
	if f&formMask != formUpgrade {
		return noNode
	}
	return uint8(f>>inPlace) - 1
}

// shares tells whether two contenders may hold together by what they are.
func (f form) shares(other form) bool {
	up, otherUp := f == formUpgradable, other == formUpgradable
	return (f.reads() || up) && (other.reads() || otherUp) && !(up && otherUp)
}

// lower returns the upgradable reader that a client is the upgrade of, or -1 if nothing is left of that.
func (w *world) lower(c int) int {
	for i := range w.clients {
		if w.clients[i].raise&raiseBelow != 0 && w.clients[i].role&roleShares != 0 && w.clients[c].raise&raiseAbove != 0 {
			return i
		}
	}
	return -1
}

// upper returns the upgrade that has an upgradable reader's node, or -1.
func (w *world) upper(c int) int {
	for i := range w.clients {
		if w.clients[i].raise&raiseOwns != 0 && w.lower(i) == c {
			return i
		}
	}
	return -1
}

func (w *world) mayUpgrade(c int) bool {
	u := w.lower(c)
	return u >= 0 && w.clients[u].holds()
}

func (w *world) neverUpgrades(c int) bool {
	u := w.lower(c)
	return u < 0 || w.clients[u].told&(toldWithdrawn|toldLost|toldFinish) != 0
}

// upgrading tells whether an upgradable reader's caller waits to write.
func (w *world) upgrading(c int) bool {
	for i := range w.clients {
		if cl := &w.clients[i]; cl.raise&raiseAbove != 0 && w.lower(i) == c {
			return cl.told&toldStart != 0 && cl.told&(toldGrant|toldWithdrawn|toldFinish) == 0
		}
	}
	return false
}

// outlives tells whether an upgrade waits, and its upgradable reader does not hold any more. Its caller may
// hear of that and give up.
func (w *world) outlives(c int) bool {
	cl := &w.clients[c]
	return cl.raise&raiseAbove != 0 && cl.told&(toldStart|toldGrant|toldWithdrawn|toldFinish) == toldStart && !w.mayUpgrade(c)
}

// rule tells an upgrade which node it belongs to.
func (e *environment) rule(w *world, c int) {
	if u := w.lower(c); u >= 0 {
		m := e.machines[w.clients[c].machine]
		m.rule = Upgrade{Of: e.first + int64(e.traits[w.clients[u].machine].own)}
		w.clients[c].machine = e.intern(m)
	}
}

// askUpgrade is what the session does about the create of an upgrade: it is made only while the upgradable reader
// holds, or if the upgrade has had its node from an earlier attempt.
func (e *environment) askUpgrade(w *world, c int, r *request) {
	cl, u, of := &w.clients[c], w.lower(c), e.traits[w.clients[c].machine].of
	holds := false
	if u >= 0 {
		t := &e.traits[w.clients[u].machine]
		holds = t.state == Held && t.own == of
	}
	if !holds && cl.raise&raiseOwns == 0 {
		r.status, r.flags = executed, r.flags|reqMissing|reqRefused // by the session itself
		return
	}
	cl.raise |= raiseOwns
	r.mask = 1 + of
}

// createUpgrade makes an upgrade's node if the one that it belongs to exists.
func (e *environment) createUpgrade(w *world, c int, r *request) {
	below := r.mask - 1
	if w.past[0]&(1<<below) == 0 && e.shell != shellUnchecked {
		r.flags |= reqMissing
		return
	}
	r.own = 1 + w.create(node{owner: uint8(c) + 1, epoch: w.clients[c].epoch, attempt: r.arg}, upgradeOf(below), 0)
}

// partOf is what the session does about a delete of one of the two: the upgradable reader's node goes with the last.
func (e *environment) partOf(w *world, c int, r *request) {
	cl := &w.clients[c]
	if r.status == lost {
		return
	}
	switch {
	case cl.raise&raiseBelow != 0 && w.upper(c) >= 0 && e.shell != shellLetsGo:
		cl.raise |= raiseParted
		r.status, r.flags = executed, r.flags|reqStale // by the session itself, which proves nothing
	case cl.raise&raiseOwns != 0:
		if u := w.lower(c); u >= 0 && w.clients[u].raise&raiseParted == 0 {
			cl.raise &^= raiseOwns
			return
		}
		r.own = 1 + e.traits[cl.machine].of
	}
}

// partLast ends an upgrade's part in the upgradable reader's node. If it is the last one, and has not removed the node with
// its own, the session does.
func (w *world) partLast(c int) {
	cl := &w.clients[c]
	u := w.lower(c)
	if cl.raise&raiseOwns == 0 || u < 0 {
		return
	}
	cl.raise &^= raiseOwns
	if w.clients[u].raise&raiseParted != 0 {
		cl.discard |= w.mine(u, w.clients[u].epoch)
	}
}

// knownAs returns by which node a machine knows one that is its own: of an upgrade's two the second.
func (e *environment) knownAs(w *world, c int, id uint8) uint8 {
	t := &e.traits[w.clients[c].machine]
	if t.of == id && t.own != noNode {
		return t.own
	}
	return id
}

// with returns a node and those that are worth nothing without it.
func (w *world) with(nodes uint8) uint8 {
	for i, f := range w.forms {
		if below := f.below(); below != noNode && nodes&(1<<below) != 0 {
			nodes |= 1 << i
		}
	}
	return nodes
}

// fence returns an upgrade's token: as great as possible, and smaller than that of a writer between it and its
// upgradable reader.
func (e *environment) fence(w *world, id, view uint8) uint8 {
	switch e.shell {
	case shellOwnFence:
		return id
	case shellLowFence:
		return w.forms[id].below()
	default:
	}
	for i := w.forms[id].below() + 1; i < id; i++ {
		if f := w.forms[i]; view&(1<<i) != 0 && !f.reads() && f != formUpgradable {
			return i - 1
		}
	}
	return id
}

// ordered tells whether a writer's token is in order: not smaller than any that was told before, and of an upgrade
// smaller than that of a writer who waits between.
func (w *world) ordered(id, token uint8) bool {
	f := w.forms[id]
	if f.reads() || f == formUpgradable {
		return true
	}
	if below := f.below(); below != noNode {
		for i := below + 1; i < id; i++ {
			if f := w.forms[i]; w.past[0]&(1<<i) != 0 && !f.reads() && f != formUpgradable && i <= token {
				return false
			}
		}
		return token+1 >= max(w.token, w.shown)
	}
	return token+1 >= w.shown
}

// noteBetween notes that a writer holds while somebody has asked to upgrade.
func (w *world) noteBetween(holders uint8) {
	for i, f := range w.forms {
		if holders&(1<<i) == 0 || f.reads() || f == formUpgradable || f.below() != noNode {
			continue
		}
		for c := range w.clients {
			if cl := &w.clients[c]; cl.raise&raiseAbove != 0 && cl.told&(toldStart|toldGrant|toldFinish) == toldStart {
				cl.told |= toldBetween
			}
		}
	}
}
