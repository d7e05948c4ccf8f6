package histories

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// A crash too many is excused where the session ends, and nowhere else.
func TestNobodyIsExcusedWhoseSessionLivesOn(t *testing.T) {
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
