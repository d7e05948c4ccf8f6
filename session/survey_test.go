package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// namesOf returns the names of what was found in alphabetical order, with their data.
func namesOf(found []session.Found) string {
	var words []string
	for _, f := range found {
		words = append(words, f.Name+"="+string(f.Data))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestSurveysAndLooksFindWhatStandsThere(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		for _, node := range []string{"/app/d/a", "/app/d/b", "/app/d/c/deep", "/app/e"} {
			r.Must(r.Server.Create(node, []byte(node)))
		}
		r.Open("/app")
		s := r.SeatedAt(session.Place{Dir: "/own"})
		own := s.CreateNode(1).Text
		watches := r.Server.Watches()
		notB := func(name string) bool { return name != "b" }
		for _, tt := range []struct {
			what string
			read func() ([]session.Found, error)
			want string
		}{
			{"all of a directory", func() ([]session.Found, error) { return r.Session.Survey(r.Context(), "/d", nil) }, "a=/app/d/a b=/app/d/b c="},
			{"some of it", func() ([]session.Found, error) { return r.Session.Survey(r.Context(), "/d", notB) }, "a=/app/d/a c="},
			{"what stands at the chroot", func() ([]session.Found, error) { return r.Session.Survey(r.Context(), "/", nil) }, "d= e=/app/e own=zkgrant\n"},
			{"an empty directory", func() ([]session.Found, error) { return r.Session.Survey(r.Context(), "/e", nil) }, ""},
			{"no directory", func() ([]session.Found, error) { return r.Session.Survey(r.Context(), "/none/at/all", nil) }, ""},
			{"a node", func() ([]session.Found, error) { return r.Session.Look(r.Context(), "/d/b") }, "b=/app/d/b"},
			{"no node", func() ([]session.Found, error) { return r.Session.Look(r.Context(), "/d/none") }, ""},
		} {
			found, err := tt.read()
			if err != nil || namesOf(found) != tt.want {
				t.Errorf("%s: %q, %v, want %q", tt.what, namesOf(found), err, tt.want)
			}
		}
		if found, err := r.Session.Look(r.Context(), "/own/"+own); err != nil || len(found) != 1 || found[0].Stat.EphemeralOwner != r.Only() {
			t.Errorf("a look at the own node finds %+v, %v; want it, and its owner", found, err)
		}
		if r.Server.Watches() != watches {
			t.Errorf("after the surveys there are %d watches, want %d as before", r.Server.Watches(), watches)
		}
	})
}

// TestSurveyIsOfOneSession: a survey that has listed in a session that then ends begins
// again. It would take nodes for gone that it has read too soon elsewhere.
func TestSurveyIsOfOneSession(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Must(r.Server.Create(sessiontest.Dir+"/a", nil))
		first := r.Only()
		var asked []string
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpGetChildren2 && q.Op != zktest.OpGetData {
				return zktest.Pass()
			}
			asked = append(asked, q.Op.String())
			if q.Op == zktest.OpGetData && q.Session == first {
				if err := r.Server.Expire(first); err != nil {
					t.Error(err)
				}
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		found, err := r.Session.Survey(r.Context(), sessiontest.Dir, nil)
		if err != nil || namesOf(found) != "a=" {
			t.Errorf("the survey finds %+v, %v; want a", found, err)
		}
		if len(asked) != 4 || asked[0] != asked[2] || asked[1] != asked[3] || asked[0] == asked[1] {
			t.Errorf("the server was asked for %v, want a listing and a reading in each session", asked)
		}
	})
}

func TestSurveyOfAClosedSession(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Server.Down(true)
		r.WantState(session.Suspended)
		ended := make(chan error, 1)
		go func() {
			_, err := r.Session.Survey(context.Background(), sessiontest.Dir, nil)
			ended <- err
		}()
		synctest.Wait()
		r.Close(time.Second)
		if err := <-ended; !errors.Is(err, session.ErrClosed) {
			t.Errorf("a survey while the session is closed ends with %v, want %v", err, session.ErrClosed)
		}
		for _, open := range []bool{true, false} { // the group that the session's goroutines belong to
			for range 20 { // more than there are places
				if _, err := r.Session.Look(r.Context(), sessiontest.Dir); !errors.Is(err, session.ErrClosed) {
					t.Errorf("a look in a closed session, open group %v: %v, want %v", open, err, session.ErrClosed)
				}
			}
			r.Group.Close()
		}
	})
}

// TestSurveysOfThoseWhoHaveLeftAreNotMade: who gives up while there is no connection
// leaves no request behind, and his place is another's.
func TestSurveysOfThoseWhoHaveLeftAreNotMade(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		r.Server.Down(true)
		s.Want("Opened Suspended")
		for range 20 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			if _, err := r.Session.Survey(ctx, sessiontest.Dir, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a survey without a connection ends with %v, want the end of its context", err)
			}
			cancel()
		}
		listings := r.Server.Requests(zktest.OpGetChildren2)
		r.Server.Down(false)
		s.List(recipes.List{Epoch: 1})
		s.Answer()
		if n := r.Server.Requests(zktest.OpGetChildren2) - listings; n != 1 {
			t.Errorf("%d listings were made after the outage, want only the seat's", n)
		}
		if _, err := r.Session.Survey(r.Context(), sessiontest.Dir, nil); err != nil { // there is a place for it
			t.Error(err)
		}
	})
}

// endingContext has ended as soon as somebody says so, and its channel is closed a moment
// later, as it is with any context.
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

// TestHalfASurveyIsNone: 1. the context ends while the nodes are read, so that the rest is
// not; 2. what was read is answered; 3. only now the caller could see that it has ended.
func TestHalfASurveyIsNone(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		const nodes = 200
		for i := range nodes {
			r.Must(r.Server.Create(fmt.Sprintf("%s/%d", sessiontest.Dir, i), nil))
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
		if found, err := r.Session.Survey(ctx, sessiontest.Dir, nil); !errors.Is(err, context.Canceled) || found != nil || readings == nodes {
			t.Errorf("%d of %d nodes are found, %v; want the end of the context and none", len(found), nodes, err)
		}
	})
}
