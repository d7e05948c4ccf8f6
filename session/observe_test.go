package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// heard returns what an observer has not read yet, and whether there is anything, the end included.
func heard(words <-chan events.Leader) (l events.Leader, ok, closed bool) {
	synctest.Wait()
	select {
	case l, open := <-words:
		return l, true, !open
	default:
		return l, false, false
	}
}

// TestObserveBelowAChroot: nodes are named as the caller names the path, and a path may be the chroot itself.
func TestObserveBelowAChroot(t *testing.T) {
	for _, chroot := range []string{"", "/app"} {
		for _, dir := range []string{"/", "/e", "/deep/e"} {
			t.Run(fmt.Sprint(chroot, " ", dir), func(t *testing.T) {
				sessiontest.Bubble(t, func(r *sessiontest.Rig) {
					r.Open(chroot)
					words := r.Session.Observe(r.Context(), dir)
					if l, ok, closed := heard(words); !ok || closed || l.Node != "" {
						t.Fatalf("an election that nobody leads begins with %+v (%v, closed %v), want no leader", l, ok, closed)
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

// TestObserveNeedsNoGrace: an observer whose context ends at whichever moment, or whose session is closed, is told of the end,
// and none is left behind.
func TestObserveNeedsNoGrace(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("")
		over, end := context.WithCancel(r.Context())
		end()
		all := []<-chan events.Leader{r.Session.Observe(over, "/a")}
		late, end := context.WithCancel(r.Context())
		all = append(all, r.Session.Observe(late, "/a"), r.Session.Observe(late, "/b"))
		go end() // while they are being read
		for i, words := range all {
			_, ok, closed := heard(words)
			if ok && !closed {
				_, _, closed = heard(words)
			}
			if !closed {
				t.Errorf("observer %d has an open channel, want it told of the end", i)
			}
		}
		stays := r.Session.Observe(context.Background(), "/c")
		heard(stays)
		r.Close(time.Second)
		for what, words := range map[string]<-chan events.Leader{
			"before": stays, "behind": r.Session.Observe(context.Background(), "/c"),
		} {
			if _, _, closed := heard(words); !closed {
				t.Errorf("an observer from %s the end of the session has an open channel, want it told", what)
			}
		}
		r.Group.Close()
		if _, _, closed := heard(r.Session.Observe(context.Background(), "/c")); !closed {
			t.Error("an observer that comes after the group was closed has an open channel, want it told of the end")
		}
	})
}
