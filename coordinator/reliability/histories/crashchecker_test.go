package histories

import (
	"context"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// story is successive operations on one lock that reports crashes.
type story []crashOperation

func (s story) add(op crashOperation, k crashKind) story {
	op.Path, op.Kind, op.Call = "/told", k, int64(10*(len(s)+1))
	if op.Return = op.Call + 1; k != crashGranted {
		op.Return = never
	}
	return append(slices.Clip(s), op)
}

// grant is a Grant that tells of the holder of another operation; nil: of none.
func (s story) grant(op crashOperation, told *crashOperation) story {
	op.Told = holding{}
	if told != nil {
		op.Told = told.Holder
	}
	return s.add(op, crashGranted)
}

// A lock that reports crashes has to report each crash, the first one of several, and no release.
func TestAFlawInAHistoryOfCrashesIsFound(t *testing.T) {
	of := func(worker int, token int64, node string) *crashOperation {
		return &crashOperation{Worker: worker, Who: node, Holder: holding{Token: token, Node: node, Who: node}}
	}
	a, b, c, d, e := of(0, 10, "a"), of(1, 20, "b"), of(2, 30, "c"), of(3, 40, "d"), of(4, 50, "e")
	reader := of(5, 35, "r")
	reader.Shares = true
	with := func(op *crashOperation, change func(*crashOperation)) *crashOperation {
		changed := *op
		change(&changed)
		return &changed
	}
	var (
		held     = story{}.grant(*a, nil)
		released = held.add(*a, crashReleased)
		crashed  = held.add(*a, crashCrashed)
		unheard  = held.add(*a, crashUnheard)
		twice    = crashed.grant(*b, a).add(*b, crashCrashed)
		unseen   = released.add(*b, crashUnseen)
		repaired = twice.grant(*c, a).add(*c, crashReleased)
	)
	for name, in := range map[string]story{
		"a release":                            released.grant(*b, nil),
		"a crash":                              crashed.grant(*b, a),
		"two crashes, the first counts":        twice.grant(*c, a),
		"a release behind two crashes":         repaired.grant(*d, nil),
		"a reader is told, and changes little": twice.grant(*reader, a).grant(*d, a),
		"unheard, and told":                    unheard.grant(*b, a),
		"unheard, and not told":                unheard.grant(*b, nil),
		"an unheard release behind a crash":    crashed.grant(*b, a).add(*b, crashUnheard).grant(*c, a),
		"a heard release behind a crash":       crashed.grant(*b, a).add(*b, crashUnheard).grant(*c, nil),
		"unseen, and told":                     unseen.grant(*c, b),
		"unseen, and not told":                 unseen.grant(*c, nil),
		"unseen behind a crash":                crashed.add(*b, crashUnseen).grant(*c, a),
	} {
		if got, _ := search(in); got != porcupine.Ok {
			t.Errorf("%s: it is %s, want %s", name, got, porcupine.Ok)
		}
	}
	for name, flawed := range map[string]story{
		"a crash that is not told":                     crashed.grant(*b, nil),
		"a crash that is not told to the second":       twice.grant(*c, nil),
		"a crash that is not told to a reader":         crashed.grant(*reader, nil),
		"a crash told behind a release":                released.grant(*b, a),
		"a crash told behind the release of a repair":  repaired.grant(*d, a),
		"a crash told behind another's release":        repaired.grant(*d, b),
		"a crash that a reader is told of for nothing": released.grant(*reader, a),
		"the last crash and not the first":             twice.grant(*c, b),
		"a worker that has not held at all":            crashed.grant(*b, d),
		"another node of the crashed holder": crashed.grant(*b,
			with(a, func(o *crashOperation) { o.Holder.Node = "z" })),
		"another token of the crashed holder": crashed.grant(*b,
			with(a, func(o *crashOperation) { o.Holder.Token = 9 })),
		"another one's data": crashed.grant(*b,
			with(a, func(o *crashOperation) { o.Holder.Who = "z" })),
		"a holder that is told of itself":              released.grant(*b, b),
		"unheard, and told of another":                 unheard.grant(*b, c),
		"unheard, told, and then not":                  unheard.grant(*b, a).add(*b, crashCrashed).grant(*c, nil),
		"unheard, not told, and then told":             unheard.grant(*b, nil).add(*b, crashReleased).grant(*c, a),
		"an unheard release behind a crash, told as b": crashed.grant(*b, a).add(*b, crashUnheard).grant(*c, b),
		"unseen behind a crash, and told":              crashed.add(*b, crashUnseen).grant(*c, b),
		"unseen, released, and told":                   unseen.grant(*c, b).add(*c, crashReleased).grant(*d, b),
		"unseen, with a token that is old":             repaired.add(*with(b, func(o *crashOperation) { o.Who = "x" }), crashUnseen).grant(*d, b),
		"two holders":                                  held.grant(*b, nil),
		"a reader beside a holder":                     held.grant(*reader, nil),
		"a token that does not grow":                   repaired.grant(*with(e, func(o *crashOperation) { o.Holder.Token = 30 }), nil),
		"the end of a worker that does not hold":       released.add(*a, crashCrashed),
	} {
		if got, _ := search(flawed); got != porcupine.Illegal {
			t.Errorf("%s: it is %s, want %s", name, got, porcupine.Illegal)
		}
	}
}

// A crash too many is excused if the session ends, and only then.
func TestASessionThatLivesOnExcusesNoCrash(t *testing.T) {
	const ours, theirs = 1, 2
	first := events.Abandoned{Node: "/told/a", Data: []byte("0/1"), Token: 10}
	lost := &coordinator.LostError{Path: "/told"}
	for name, at := range map[string]struct {
		began, ended int64 // the sessions of the first one
		taken        bool
		err          error
		after        int64 // the session of a Grant that comes last
		told         bool  // the second one, of the first
		want         porcupine.CheckResult
	}{
		"released, not told":                 {ours, ours, true, nil, ours, false, porcupine.Ok},
		"released, and told":                 {ours, ours, true, nil, ours, true, porcupine.Illegal},
		"released, told, the session ends":   {ours, ours, true, nil, theirs, true, porcupine.Ok},
		"lost, and told":                     {ours, ours, true, lost, ours, true, porcupine.Ok},
		"lost, not told":                     {ours, ours, true, lost, theirs, false, porcupine.Illegal},
		"panicked, not told":                 {ours, ours, true, errBug, ours, false, porcupine.Illegal},
		"closed, not told":                   {ours, ours, true, coordinator.ErrClosed, theirs, false, porcupine.Illegal},
		"given up, not told":                 {ours, ours, false, context.Canceled, ours, false, porcupine.Ok},
		"given up, and told":                 {ours, ours, false, context.Canceled, ours, true, porcupine.Illegal},
		"given up, told, the session ends":   {ours, ours, false, context.Canceled, theirs, true, porcupine.Ok},
		"given up in the session after that": {theirs + 1, ours, false, context.Canceled, ours, true, porcupine.Ok},
		"lost before it was taken":           {ours, ours, false, lost, ours, true, porcupine.Ok},
	} {
		c := &chronicle{history: newHistory(0)}
		begin := func(who string, session int64) *episode {
			e := &episode{chronicle: c, path: "/told", who: who, asked: c.now(), began: session}
			c.add(e)
			return e
		}
		grant := func(who string, session, token int64, told *events.Abandoned) {
			e := begin(who, session)
			e.granted(events.Grant{Node: "/told/" + who, Token: token, Session: session, Abandoned: told})
			e.ends()
			e.ended, e.done = session, c.now()
		}
		e := begin("0/1", at.began)
		if at.taken {
			e.granted(events.Grant{Node: first.Node, Token: first.Token, Session: at.ended})
			e.ends()
		}
		e.err, e.ended, e.done = at.err, at.ended, c.now()
		var told *events.Abandoned
		if at.told {
			told = &first
		}
		grant("1/1", theirs, 20, told)
		grant("2/1", at.after, 30, nil)
		grant("2/2", theirs, 40, nil)
		if got, _ := search(c.operations()); got != at.want {
			t.Errorf("%s: it is %s, want %s", name, got, at.want)
		}
	}
}
