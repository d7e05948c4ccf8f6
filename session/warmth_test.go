package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// next is a seat that waits for another one's node in a queue, both of one session.
type next struct {
	*sessiontest.Rig
	ahead, seat *sessiontest.Seat
	node, own   string
}

func nextIn(r *sessiontest.Rig) next {
	r.Helper()
	r.Warm()
	n := next{Rig: r, ahead: r.Seated(), seat: r.Seated()}
	n.node = n.ahead.Makes(1).Node.Text
	n.own = n.seat.Makes(1).Node.Text
	n.seat.ListNodes(1)
	n.seat.WatchNode(n.node)
	n.seat.Want("")
	return n
}

// leave has the contender ahead leave.
func (n next) leave() {
	n.Helper()
	n.ahead.DeleteNode(n.node)
	n.seat.WantGone(n.node)
}

// wantsAWrite checks that do asks the server for a write, and that the seat's answer waits
// for it.
func (n next) wantsAWrite(do func()) {
	n.Helper()
	n.seat.Fresh()
	writes := n.Server.Requests(zktest.OpMulti)
	n.On(zktest.OpMulti, zktest.Swallow())
	do()
	synctest.Wait()
	if writes = n.Server.Requests(zktest.OpMulti) - writes; writes == 0 {
		n.Error("no write, want a claim")
	}
	n.seat.Want("") // before that is answered
}

// TestAWarmSessionKnowsTheFirst contender, without a request: of a listing, or by the news
// that the node ahead is gone.
func TestAWarmSessionKnowsTheFirst(t *testing.T) {
	claims := func(n next) {
		n.Helper()
		asked := n.Asked()
		n.seat.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: n.own}})
		n.seat.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
		n.WantAsked(asked())
	}
	sessiontest.Run(t, "listed", func(r *sessiontest.Rig) {
		s := r.Seated()
		n := next{Rig: r, seat: s, own: s.Makes(1).Node.Text}
		s.ListNodes(1)
		claims(n)
	})
	sessiontest.Run(t, "news", func(r *sessiontest.Rig) {
		n := nextIn(r)
		n.leave()
		claims(n)
	})
}

// TestAReadAfterNewsIsNotOlder: the news that made the Grant does not say how far the
// servers are. So a write through the quorum comes before the first read, and none before
// the next one.
func TestAReadAfterNewsIsNotOlder(t *testing.T) {
	for name, c := range map[string]struct {
		news bool
		want []zktest.Op
	}{
		"granted by news":      {true, []zktest.Op{zktest.OpMulti, zktest.OpGetData}},
		"granted by a listing": {false, []zktest.Op{zktest.OpGetData}},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			n := nextIn(r)
			n.leave()
			if !c.news {
				n.seat.ListNodes(1)
			}
			n.seat.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: n.own}})
			n.seat.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
			for _, want := range [][]zktest.Op{c.want, {zktest.OpGetData}} {
				asked := r.Asked()
				_, err := n.seat.Read(r.Context(), 1, sessiontest.Dir)
				r.Must(err)
				r.WantAsked(asked(), want...)
			}
		})
	}
}

// TestAColdSessionClaims: each of these is a reason to, and so is a claim that says more than that the node is there.
func TestAColdSessionClaims(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(n next)
		claim recipes.Claim
	}{
		"nothing was written for two probe intervals": {spoil: func(next) { time.Sleep(sessiontest.Timeout / 4) }},
		"the lease is short, though something was written": {spoil: func(n next) {
			n.NoPings()
			time.Sleep(sessiontest.Timeout / 2) // nothing is answered
			n.Settle()
			n.Seated().Makes(1)
		}},
		"the contender was listed on another connection": {spoil: func(n next) {
			n.Server.Cut(n.Only())
			n.Settle()
			n.SetData(n.own)    // so that its watch is armed on this one,
			n.Seated().Makes(1) // and something is written
		}},
		"the node's watch was armed on another connection": {spoil: func(n next) {
			n.Server.Cut(n.Only())
			n.Settle()
			n.seat.ListNodes(1)
		}},
		"it is unknown whether the node is watched": {spoil: func(n next) {
			n.On(zktest.OpGetData, zktest.Swallow())
			n.SetData(n.own) // the watch tells it, and to arm it again is not answered
		}},
		"with a record":     {claim: recipes.Claim{Record: recipes.RecordMade}},
		"of one that holds": {claim: recipes.Claim{Held: true}},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			n := nextIn(r)
			n.leave()
			if c.spoil != nil {
				c.spoil(n)
			}
			synctest.Wait()
			c.claim.Epoch, c.claim.Node = 1, events.Name{Text: n.own}
			n.wantsAWrite(func() { n.seat.Do(c.claim) })
		})
	}
}

// TestALateRenewalIsToldBeforeAnythingIsGranted: a lease is renewed when it has run out already. Its end is told before it grants a lock,
// or the grant would be a loss.
func TestALateRenewalIsToldBeforeAnythingIsGranted(t *testing.T) {
	const other = "lock-0000000000"
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Plant(other)
		s, writer := r.Seated(), r.Seated()
		own := s.CreateNode(1).Text
		s.ListNodes(1)
		s.WatchNode(other)
		s.Want("")
		for s.Until() > -time.Second { // reads are signs of life, and the next write makes a long lease of them
			time.Sleep(time.Second / 2)
			writer.ListNodes(1)
		}
		r.DeleteNode(other)
		s.WantGone(other)
		s.ListNodes(1)
		r.Once(zktest.Delay(time.Second), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
		writer.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "none"}})
		synctest.Wait()
		wait, open := gate(r)
		idle := r.InPlaceOf(writer)
		idle.Hears(func(recipes.Input) { wait() })       // in the session's own time
		go idle.Do(recipes.Create{Epoch: 1, Attempt: 1}) // it is refused at once: there is no place to take
		synctest.Wait()
		go s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: own}})
		time.Sleep(2 * time.Second) // the write is answered
		open()
		synctest.Wait()
		if told := s.Fresh(); sessiontest.TypesOf(told) != "Claimed" || told[0] != (recipes.Claimed{Epoch: 1, Fresh: true}) {
			r.Errorf("told %+v, want a fresh claim", told)
		}
	})
}

// TestNoSessionIsWarmInAnOutage: a claim waits for a connection.
func TestNoSessionIsWarmInAnOutage(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		n := nextIn(r)
		n.leave()
		n.seat.ListNodes(1) // it says that the contender is the first
		r.Server.Down(true)
		n.seat.Want("Suspended")
		n.seat.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: n.own}})
		n.seat.Want("")
		r.Server.Down(false)
		r.Settle()
		n.seat.Want("Reconnected Claimed")
	})
}

// TestAGrantWithoutAWriteIsProbedFor as soon as one with a write would be: the lease goes on from the last write.
func TestAGrantWithoutAWriteIsProbedFor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		n := nextIn(r)
		n.leave()
		written := time.Now()
		time.Sleep(sessiontest.Timeout / 8) // a probe interval and a quarter
		before := r.Server.Requests(zktest.OpMulti)
		n.seat.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: n.own}})
		n.seat.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
		r.Until("a probe has come", func() bool { return r.Server.Requests(zktest.OpMulti) > before })
		if took := time.Since(written); took > sessiontest.Timeout/5 {
			r.Errorf("%v after the last write there is a probe, want two intervals at most", took)
		}
	})
}
