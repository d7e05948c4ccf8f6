package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestObserveBelowAChroot: nodes are named as the caller names the path. A path may be
// the chroot itself.
func TestObserveBelowAChroot(t *testing.T) {
	for _, chroot := range []string{"", "/app"} {
		for _, dir := range []string{"/", "/e", "/deep/e"} {
			bubble(t, func(r *rig) {
				r.Open(chroot)
				words := r.Session.Observe(r.Context(), dir)
				if l := eventstest.Receive(r, words, "a word below "+chroot+dir); l.Node != "" {
					t.Fatalf("an election without a leader begins with %+v, want no leader", l)
				}
				below := strings.TrimSuffix(dir, "/") + "/lock-0000000007"
				r.Make(chroot+below, "ann")
				l := eventstest.Receive(r, words, "the leader's word below "+chroot+dir)
				expect(r, l.Node == below && string(l.Data) == "ann" && l.Token != 0,
					"%s leads with %+v, want %s", chroot, l, below)
			})
		}
	}
}

// endingContext ends as soon as the test says so. Its channel is closed a moment later,
// as with any context.
type endingContext struct {
	context.Context
	over atomic.Bool
}

func (c *endingContext) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

// TestHalfASurveyIsNone:
//
//  1. The context ends while the nodes are read, so the rest is not read.
//  2. The nodes that were read are in the answer.
//  3. Only then could the caller see that the context has ended.
func TestHalfASurveyIsNone(t *testing.T) {
	inSession(t, func(r *rig) {
		const nodes = 200
		for i := range nodes {
			r.Plant(fmt.Sprint(i))
		}
		ctx := &endingContext{Context: r.Context()}
		readings := 0
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpGetData {
				if readings++; readings == 100 {
					ctx.over.Store(true)
				}
			}
			return zktest.Pass()
		})
		found, err := r.Session.ReadQueue(ctx, lockDir, nil)
		expect(t, errors.Is(err, context.Canceled) && found == nil && readings != nodes,
			"%d of %d nodes are found, %v; want the end of the context and none", len(found), nodes, err)
	})
}

// TestInspectSaysOfEachNodeWhatStandsThere: it also says which parts may not be read.
func TestInspectSaysOfEachNodeWhatStandsThere(t *testing.T) {
	bubble(t, func(r *rig) {
		for _, node := range []string{"d/+a", "d/c", "d/+b", "d/a", "hidden/x", "half/+x", "half/y"} {
			r.Make("/app/"+node, "/app/"+node)
		}
		r.Open("/app")
		own := r.SeatedAt(session.Place{Dir: "/own"}).Makes(1).Node.Text
		r.Either(func(q zktest.Request) bool { return q.Path == "/app/hidden" || q.Path == "/app/half/+x" },
			zktest.Fail(zktest.NoAuth), zktest.Pass())
		nodes := []string{"/d", "/none", "/hidden", "/half", "/own/" + own, "/d/a"}
		seen, err := r.Session.Inspect(r.Context(), nodes, session.Inspection{Wanted: func(name string) bool {
			return strings.HasPrefix(name, "+")
		}})
		if err != nil || len(seen) != len(nodes) {
			t.Fatalf("%d nodes are seen, %v; want %d", len(seen), err, len(nodes))
		}
		for i, want := range []string{
			"+a=/app/d/+a +b=/app/d/+b | [a c]", "absent | []", "absent no permission | []",
			"no permission | [y]", own + "= | [] ephemeral", " | []",
		} {
			n, got := seen[i], ""
			if n.Stat == nil {
				got = "absent "
			}
			if errors.Is(n.Err, session.ErrNoAuth) {
				got += "no permission "
			}
			var found []string
			for _, f := range n.Found {
				found = append(found, f.Name+"="+string(f.Data))
			}
			slices.Sort(found)
			got = strings.TrimSpace(got+strings.Join(found, " ")) + fmt.Sprintf(" | %v", n.Rest)
			if n.Stat != nil && session.Ephemeral(n.Stat) {
				got += " ephemeral"
			}
			equal(t, got, want, "%s is seen as", nodes[i])
		}
	})
}
