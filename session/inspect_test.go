package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestInspectSaysOfEachNodeWhatStandsThere, and which parts of it may not be seen.
func TestInspectSaysOfEachNodeWhatStandsThere(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		for _, node := range []string{"/app/d/+a", "/app/d/c", "/app/d/+b", "/app/d/a", "/app/hidden/x", "/app/half/+x", "/app/half/y"} {
			r.Must(r.Server.Create(node, []byte(node)))
		}
		r.Open("/app")
		own := r.SeatedAt(session.Place{Dir: "/own"}).CreateNode(1).Text
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Path == "/app/hidden" || q.Path == "/app/half/+x" {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		nodes := []string{"/d", "/none", "/hidden", "/half", "/own/" + own, "/d/a"}
		seen, err := r.Session.Inspect(r.Context(), nodes, session.Inspection{Wanted: func(name string) bool { return strings.HasPrefix(name, "+") }})
		if err != nil || len(seen) != len(nodes) {
			t.Fatalf("%d nodes are seen, %v; want %d", len(seen), err, len(nodes))
		}
		for i, want := range []string{
			"+a=/app/d/+a +b=/app/d/+b | [a c]", " | []", "no permission | []", "no permission | [y]", own + "= | [] ephemeral", " | []",
		} {
			n := seen[i]
			got := fmt.Sprintf("%s | %v", namesOf(n.Found), n.Rest)
			if errors.Is(n.Err, session.ErrNoAuth) {
				got = "no permission" + got
			}
			if n.Stat != nil && session.Ephemeral(n.Stat) {
				got += " ephemeral"
			}
			if exists := n.Stat != nil; got != want || exists != !slices.Contains([]int{1, 2}, i) {
				t.Errorf("%s is seen as %q, there: %v; want %q, %v", nodes[i], got, exists, want, !exists)
			}
		}
	})
}

func namesOf(found []session.Found) string {
	var words []string
	for _, f := range found {
		words = append(words, f.Name+"="+string(f.Data))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
