package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// heard returns a word that an observer has not read yet, and whether there is any, the end included.
func heard(words <-chan events.Leader) (l events.Leader, ok, closed bool) {
	synctest.Wait()
	select {
	case l, open := <-words:
		return l, true, !open
	default:
		return l, false, false
	}
}

// TestObserveBelowAChroot: nodes are named as the caller names the path. A path may be the chroot itself.
func TestObserveBelowAChroot(t *testing.T) {
	for _, chroot := range []string{"", "/app"} {
		for _, dir := range []string{"/", "/e", "/deep/e"} {
			t.Run(fmt.Sprint(chroot, " ", dir), func(t *testing.T) {
				sessiontest.Bubble(t, func(r *sessiontest.Rig) {
					r.Open(chroot)
					words := r.Session.Observe(r.Context(), dir)
					if l, ok, closed := heard(words); !ok || closed || l.Node != "" {
						t.Fatalf("an election without a leader begins with %+v (%v, closed %v), want no leader", l, ok, closed)
					}
					below := dir + "/lock-0000000007"
					if dir == "/" {
						below = "/lock-0000000007"
					}
					r.Must(r.Server.Create(chroot+below, []byte("ann")))
					if l, ok, _ := heard(words); !ok || l.Node != below || string(l.Data) != "ann" || l.Token == 0 {
						t.Errorf("%+v, %v, want %s", l, ok, below)
					}
				})
			})
		}
	}
}

// endingContext has ended as soon as the test says so. Its channel is closed a moment later, as with any context.
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
//  2. What was read is answered.
//  3. Only now the caller could see that the context has ended.
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
		if found, err := r.Session.ReadQueue(ctx, sessiontest.Dir, nil); !errors.Is(err, context.Canceled) || found != nil || readings == nodes {
			t.Errorf("%d of %d nodes are found, %v; want the end of the context and none", len(found), nodes, err)
		}
	})
}
