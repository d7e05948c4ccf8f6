package schedules

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// disturb breaks one thing after the other until the time is up.
func (w *world) disturb() {
	r := newRandom(w.seed, disturbing, 0)
	end := w.begun.Add(w.length)
	w.disturbed.Store(true)
	for {
		c := w.victim(r)
		pause := r.upTo(c.timeout)
		if w.kind == mild {
			pause += w.longest() // so that each lease has recovered from the previous fault
		}
		if time.Now().Add(pause).After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(pause)
		took := w.plan.outage(r, c.timeout)
		if w.kind == mild {
			shortest := w.longest()
			for _, c := range w.clients {
				shortest = min(shortest, c.timeout)
			}
			took = w.plan.outage(r, shortest)
			w.breakOneThing(r, c, took)
			time.Sleep(took)
			continue
		}
		w.breakOneThing(r, w.victim(r), took)
	}
}

// victim returns any client, or one that holds a lock.
func (w *world) victim(r random) *client {
	anybody := pick(r, w.clients...)
	if r.oneIn(3) {
		return anybody
	}
	if all := w.holders(w.paths...); len(all) > 0 {
		return all[0].life.client
	}
	return anybody
}

// later undoes something, unless everything has healed by then.
func (w *world) later(after time.Duration, undo func()) {
	time.AfterFunc(after, func() {
		if !w.healed() {
			undo()
		}
	})
}

func (w *world) breakOneThing(r random, c *client, took time.Duration) {
	id := c.id()
	if id == 0 {
		return // there is no session to break, and 0 means the sessions being created
	}
	if w.size.resizes && w.recipe == semaphore && r.oneIn(3) {
		w.resize(r)
	}
	if w.revocable() && r.oneIn(3) {
		w.revoke(r)
	}
	said := func(what string) {
		w.logf("FAULT %s, %s, session %x, %v", what, c.name, id, took)
		w.count("fault: "+what, 1)
	}
	until := func(what string, set func(bool)) {
		said(what)
		set(true)
		w.later(took, func() { set(false) })
	}
	switch choice := r.IntN(28); choice {
	case 0, 1:
		said("cut")
		w.srv.Cut(id)
	case 2:
		said("cut all")
		w.srv.CutAll()
	case 3:
		until("server down", w.srv.Down)
	case 4, 5:
		until("mute", func(on bool) { w.srv.Mute(id, on) })
	case 6:
		until("all mute", w.srv.MuteAll)
	case 7, 8, 9:
		directions := pick(r, nil, nil, []faultnet.Direction{faultnet.Up}, []faultnet.Direction{faultnet.Down})
		said("partition")
		c.network.Partition(directions...)
		w.later(took, c.network.Heal)
	case 10:
		said("refused")
		c.network.Refuse(true)
		c.network.Cut()
		w.later(took, c.network.Heal)
	case 11:
		said("slow network")
		c.network.Lag(pick(r, faultnet.Up, faultnet.Down), r.upTo(c.timeout/8))
		w.later(took, c.network.Heal)
	case 12, 13, 14:
		w.behind.Store(true)
		until("stranded", func(on bool) { w.srv.Strand(id, on) })
	case 15:
		w.behind.Store(true)
		until("lagging", func(on bool) { w.srv.Lag(id, on) })
	case 16:
		said("reaped")
		w.srv.Reap()
	case 22, 23, 24, 25:
		said("isolated")
		w.isolate(r, c, id, took)
	case 26:
		said("data changed")
		for _, lock := range w.paths {
			for _, node := range w.nodes(lock) {
				_ = w.srv.SetData(node, []byte("changed")) // the node may be gone
			}
		}
	case 27:
		said("asked back")
		w.askBack(r)
	default:
		w.breakFurther(r, c, choice, took, said)
	}
}

// isolate cuts a session off in one way or another, and keeps the client from
// reconnecting, perhaps after slow answers for a while. No other fault happens meanwhile:
// this tests that a lease runs out in time.
func (w *world) isolate(r random, c *client, id int64, took time.Duration) {
	if w.kind != mild {
		took = c.timeout*9/10 + r.upTo(c.timeout)
		if r.oneIn(2) {
			slow := c.timeout/8 + r.upTo(c.timeout/4)
			w.logf("FAULT answers to %s take %v", c.name, slow)
			c.network.Lag(faultnet.Down, slow)
			time.Sleep(c.timeout/2 + r.upTo(c.timeout))
		}
	}
	switch r.IntN(4) {
	case 0:
		c.network.Refuse(true)
	case 1:
		w.srv.Mute(id, true)
	case 2:
		c.network.Partition()
	case 3:
		c.network.Partition(faultnet.Up) // answers under way arrive
	}
	w.srv.Strand(id, true) // the follower passes nothing on to the leader either
	w.behind.Store(true)
	time.Sleep(took)
	w.srv.Strand(id, false)
	w.srv.Mute(id, false)
	c.network.Heal()
}

// breakFurther plays the faults that some kinds of schedule exclude.
func (w *world) breakFurther(r random, c *client, choice int, took time.Duration, said func(string)) {
	switch {
	case w.kind == decreed && choice <= 19:
		id := c.id()
		w.decreed.add(id)
		said("expired by decree")
		if err := w.srv.Expire(id); err != nil {
			w.logf("%v", err)
		}
	case w.kind == meddled && choice <= 19:
		for _, node := range w.nodes(pick(r, w.paths...)) {
			if r.oneIn(2) {
				w.meddled.add(nameOf(node))
				said("node deleted")
				w.logf("deleted %s: %v", node, w.srv.Delete(node))
			}
		}
	case w.kind == mild:
	case choice == 20:
		if c.restarting.CompareAndSwap(false, true) {
			said("coordinator replaced")
			w.crew.Go(c.restart)
		}
	default:
		c.faults.begin(r, took)
	}
}

// frameFaults is the rule of one network: for some time, some of its frames meet a fault.
type frameFaults struct {
	client *client
	mu     sync.Mutex
	random
	until time.Time
	rate  int       // one frame in rate meets a fault
	focus zktest.Op // 0: any
}

// begin starts faults for some time: rare ones on any frame, or frequent ones on the
// frames of one operation.
func (f *frameFaults) begin(r random, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until, f.rate, f.focus = time.Now().Add(took), pick(r, 5, 20, 50), 0
	if r.oneIn(2) {
		f.rate = pick(r, 1, 2, 4)
		f.focus = pick(r, zktest.OpCreate, zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpConnect,
			zktest.OpSetWatches, zktest.OpGetData, zktest.OpGetChildren2, faultnet.OpEvent)
	}
	f.client.world.logf("FAULT frames, %s: one in %d of %v (0: any) for %v", f.client.name, f.rate, f.focus, took)
	f.client.world.count("fault: frames", 1)
}

func (f *frameFaults) rule(frame faultnet.Frame) faultnet.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.client.world
	if w.healed() || !w.disturbed.Load() {
		return faultnet.Pass()
	}
	struck := f.client.unsteady && f.oneIn(60)
	if time.Now().Before(f.until) && (f.focus == 0 || frame.Op == f.focus) {
		struck = struck || f.oneIn(f.rate)
	}
	if !struck {
		return faultnet.Pass()
	}
	var v faultnet.Verdict
	timeout := f.client.timeout
	switch f.IntN(9) {
	case 0, 1:
		v = faultnet.CutBefore()
	case 2, 3:
		v = faultnet.CutAfter()
	case 4, 5:
		v = faultnet.HoldFor(f.upTo(timeout / 2))
	case 6:
		v = faultnet.HoldFor(f.upTo(2 * timeout))
	case 7:
		v = faultnet.Swallow()
		f.client.lossy.Store(true)
	case 8:
		// A network does not lose a frame and keep the connection. A server that does so
		// crashes soon after.
		v = faultnet.Drop()
		f.client.lossy.Store(true)
		if frame.Op == faultnet.OpEvent {
			f.client.deaf.Store(true)
		}
		w.later(f.upTo(timeout), f.client.network.Cut)
	}
	w.logf("FAULT frame %v of %s: %v", frame, f.client.name, v)
	w.count("frames", 1)
	if frame.Direction == faultnet.Down && (frame.Op == zktest.OpCreate || frame.Op == zktest.OpMulti) {
		w.count("frames: replies to create or multi", 1)
	}
	return v
}

// intercept loses some replies to creates, so the test knows which nodes they created.
func (w *world) intercept(q zktest.Request) zktest.Action {
	w.enters(q)
	w.judgeRemoval(q)
	if w.kind == mild || w.healed() {
		return zktest.Pass()
	}
	node := created(q)
	if _, found := guid(node); !found && w.recipe != unfair {
		return zktest.Pass()
	}
	w.mu.Lock()
	w.counts["creates"]++
	// The count of creates decides, so that the decision does not depend on the GUID.
	unlucky := newRandom(w.seed, losing, w.counts["creates"]).oneIn(30)
	w.mu.Unlock()
	if !unlucky {
		return zktest.Pass()
	}
	w.cutAfter.add(nameOf(node))
	w.logf("FAULT reply to the create of %s is lost", node)
	w.count("create replies lost", 1)
	return zktest.CutAfter()
}

// created returns the path that the request creates, alone or in a transaction, or "".
func created(q zktest.Request) string {
	if q.Op == zktest.OpCreate {
		return q.Path
	}
	for _, part := range q.Parts {
		if part.Op == zktest.OpCreate {
			return part.Path
		}
	}
	return ""
}

// guid returns the GUID in the name of a node, existing or to be created, in Curator's
// form or in kazoo's.
func guid(node string) (string, bool) {
	const size, short = 36, 32
	name, found := strings.CutPrefix(path.Base(node), "_c_")
	if id, _, kazoos := strings.Cut(name, "__"); !found && kazoos && len(id) == short {
		return id, true
	}
	if !found || len(name) < size {
		return "", false
	}
	return name[:size], true
}
