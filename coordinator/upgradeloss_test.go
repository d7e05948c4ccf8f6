package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// nodeOfKind returns the path of the only node of the kind.
func nodeOfKind(t *testing.T, srv *zktest.Server, kind events.Kind) (node string) {
	t.Helper()
	for _, child := range srv.Children(lockPath) {
		if name, _ := events.ParseName(child); name.Kind == kind {
			if node != "" {
				t.Errorf("%s, and %s", node, child)
			}
			node = lockPath + "/" + child
		}
	}
	return node
}

// TestAnUpgradeWhoseReplyIsLostWithTheUpgradableNode: its node was made, which nobody but a look-up can tell, and when that comes the upgradable
// reader's node is gone. The other one goes as well, whether the caller still waits or not.
func TestAnUpgradeWhoseReplyIsLostWithTheUpgradableNode(t *testing.T) {
	for _, released := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
			coordtest.Soon(t, up)
			srv.Intercept(func(q zktest.Request) zktest.Action {
				if q.Session != a.SessionID() || q.Op != zktest.OpMulti || len(q.Parts) != 2 || !strings.Contains(q.Parts[1].Path, events.KindUpgrade.Marker()) {
					return zktest.Pass()
				}
				srv.Intercept(nil)
				return zktest.CutAfter()
			})
			write := queueFrom(a.ReadWrite(lockPath).Write(), context.WithoutCancel(up.Context(t.Context())))
			if nodeOfKind(t, srv, events.KindUpgrade) == "" {
				t.Fatalf("no upgrade among %v", srv.Children(lockPath))
			}
			if err := srv.Delete(nodeOfKind(t, srv, events.KindUpgradable)); err != nil {
				t.Fatal(err)
			}
			if released {
				write.Release()
			}
			<-write.Done()
			if err := write.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
				t.Errorf("ended with %v", err)
			}
			up.Release()
			<-up.Done()
			time.Sleep(3 * time.Second)
			if left := srv.Children(lockPath); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			coordtest.Soon(t, b.ReadWrite(lockPath).Write().Acquire(t.Context()))
		})
	}
}

// TestTokensOfTwoUpgrades: the second has looked while a writer stands between, and the first, which looks later and is granted before, finds
// that he has given up.
func TestTokensOfTwoUpgrades(t *testing.T) {
	for range 5 { // now and then the first looks first, and there is nothing to see
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
			coordtest.Soon(t, up)
			old, young := b.ReadWrite(lockPath).Read().Acquire(t.Context()), b.ReadWrite(lockPath).Read().Acquire(t.Context())
			coordtest.Soon(t, old)
			coordtest.Soon(t, young)
			writer := coordtest.Queue(b.ReadWrite(lockPath).Write())
			between := nodeOfKind(t, srv, events.KindWrite)
			first := queueFrom(a.ReadWrite(lockPath).Write(), up.Context(t.Context()))
			old.Release()
			<-old.Done()
			lists, looked := 0, false
			srv.Intercept(func(q zktest.Request) zktest.Action {
				switch {
				case q.Session != a.SessionID():
				case len(q.Parts) == 2 && strings.HasSuffix(q.Parts[1].Path, events.KindUpgrade.Marker()):
					return zktest.Delay(time.Second) // and the first hears only behind this that the reader has gone
				case q.Op == zktest.OpExists && q.Path == between:
					looked = true // the second, that is; the writer stands
				case q.Op == zktest.OpGetChildren2:
					if lists++; lists > 1 && !looked {
						return zktest.Fail(zktest.Throttled) // the first is to look again
					}
					if lists > 1 && srv.Exists(between) {
						_ = srv.Delete(between)
					}
				}
				return zktest.Pass()
			})
			second := queueFrom(a.ReadWrite(lockPath).Write(), up.Context(t.Context()))
			young.Release()
			<-young.Done()
			grant := coordtest.Soon(t, first)
			srv.Intercept(nil)
			writer.Release()
			<-writer.Done()
			first.Release()
			if token := coordtest.Soon(t, second).Token; token < grant.Token {
				t.Errorf("the second token is %d, and the first %d", token, grant.Token)
			}
		})
	}
}
