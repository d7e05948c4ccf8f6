package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestWhoMayUpgrade: what can be asked for with which context.
func TestWhoMayUpgrade(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw, other := a.ReadWrite(lockPath), b.ReadWrite(lockPath)
		again := a.ReadWrite(lockPath, coordinator.Reentrant())
		for _, c := range []struct {
			name string
			held []*coordinator.Lock // each with the context of the one before
			then *coordinator.Lock
			want error // context.DeadlineExceeded: somebody else's lock is waited for
		}{
			{"write", []*coordinator.Lock{rw.Upgradable()}, rw.Write(), nil},
			{"read", []*coordinator.Lock{rw.Upgradable()}, rw.Read(), coordinator.ErrDeadlock},
			{"twice", []*coordinator.Lock{rw.Upgradable()}, rw.Upgradable(), coordinator.ErrDeadlock},
			{"twice, reentrant", []*coordinator.Lock{again.Upgradable()}, again.Upgradable(), nil},
			{"write, from within twice", []*coordinator.Lock{again.Upgradable(), again.Upgradable()}, again.Write(), nil},
			{"write as well", []*coordinator.Lock{rw.Upgradable(), rw.Write()}, rw.Write(), coordinator.ErrDeadlock},
			{"write as well, reentrant", []*coordinator.Lock{again.Upgradable(), again.Write()}, again.Write(), coordinator.ErrDeadlock},
			{"read as a writer", []*coordinator.Lock{rw.Upgradable(), rw.Write()}, rw.Read(), coordinator.ErrDeadlock},
			{"upgradable as a reader", []*coordinator.Lock{rw.Read()}, rw.Upgradable(), coordinator.ErrDeadlock},
			{"upgradable as a writer", []*coordinator.Lock{rw.Write()}, rw.Upgradable(), coordinator.ErrDeadlock},
			{"write in another session", []*coordinator.Lock{rw.Upgradable()}, other.Write(), context.DeadlineExceeded},
			{"write elsewhere", []*coordinator.Lock{rw.Upgradable()}, a.ReadWrite("/locks/elsewhere").Write(), nil},
			{"as a mutex", []*coordinator.Lock{rw.Upgradable()}, a.Mutex(lockPath), coordinator.ErrKind},
		} {
			ctx := t.Context()
			var all []*coordinator.Acquisition
			for _, l := range c.held {
				held := l.Acquire(ctx)
				coordtest.Soon(t, held)
				ctx = held.Context(ctx) //nolint:fatcontext // two at most
				all = append(all, held)
			}
			bounded, cancel := context.WithTimeout(ctx, time.Minute)
			asked := time.Now()
			then := c.then.Acquire(bounded)
			if _, err := then.Wait(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			} else if (errors.Is(err, coordinator.ErrDeadlock) || errors.Is(err, coordinator.ErrKind)) && time.Since(asked) > 0 {
				t.Errorf("%s: refused after %v", c.name, time.Since(asked))
			}
			cancel()
			for _, l := range append(all, then) {
				l.Release()
				<-l.Done()
			}
			if left := srv.Children(lockPath); len(left) > 0 {
				t.Errorf("%s: left behind: %v", c.name, left)
			}
		}
		up, read := rw.Upgradable().Acquire(t.Context()), rw.Read().Acquire(t.Context())
		coordtest.Soon(t, up)
		coordtest.Soon(t, read)
		for _, ctx := range []context.Context{up.Context(read.Context(t.Context())), read.Context(up.Context(t.Context()))} {
			if err := rw.Write().Acquire(ctx).Err(); !errors.Is(err, coordinator.ErrDeadlock) {
				t.Errorf("as a reader beside itself: %v", err)
			}
		}
		kazoo := a.ReadWrite("/locks/kazoo", coordinator.AsKazoo())
		if err := kazoo.Upgradable().Acquire(t.Context()).Err(); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("with kazoo's names: %v", err)
		}
	})
}

// TestAnUpgradeThatIsGivenUp: by its context, by its longest wait, because it was only to be tried. The upgradable reader stays
// what it is, and what descends from its context does not wait any longer than it holds.
func TestAnUpgradeThatIsGivenUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
		up := a.Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		reader := b.Read().Acquire(t.Context())
		coordtest.Soon(t, reader)
		writer := coordtest.Queue(b.Write())
		mine, cancel := context.WithCancel(up.Context(t.Context()))
		time.AfterFunc(time.Second, cancel)
		for name, c := range map[string]struct {
			ctx    context.Context
			option coordinator.AcquireOption
			want   error
		}{
			"try":     {up.Context(t.Context()), coordinator.Try(), coordinator.ErrNotAcquired},
			"a while": {up.Context(t.Context()), coordinator.WithMaxWait(time.Second), coordinator.ErrTimeout},
			"context": {mine, nil, context.Canceled},
		} {
			write := a.Write().Acquire(c.ctx, c.option)
			<-write.Done()
			if err := write.Err(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		synctest.Wait()
		if !up.Valid() || !reader.Valid() || writer.Valid() || len(srv.Children(lockPath)) != 3 {
			t.Errorf("the upgradable reader holds: %v; nodes %v", up.Valid(), srv.Children(lockPath))
		}
		write := queueFrom(a.Write(), up.Context(t.Context()))
		up.Release()
		<-write.Done()
		if err := write.Err(); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("with the context of a lock that was released: %v", err)
		}
		reader.Release()
		coordtest.Soon(t, writer)
	})
}

// TestTwoUpgradesOfOne: they exclude each other, in the order in which they were asked for, and the second is asked for while the
// upgradable reader is released.
func TestTwoUpgradesOfOne(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
		up := a.Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		ctx := context.WithoutCancel(up.Context(t.Context()))
		first := a.Write().Acquire(ctx)
		grant := coordtest.Soon(t, first)
		second := queueFrom(a.Write(), ctx)
		writer := coordtest.Queue(b.Write())
		reader := coordtest.Queue(b.Read())
		up.Release()
		<-up.Done()
		third := a.Write().Acquire(ctx) // for which it is too late: it is a writer like any other
		time.Sleep(time.Second)
		if second.Valid() {
			t.Error("two writers")
		}
		first.Release()
		if token := coordtest.Soon(t, second).Token; token < grant.Token {
			t.Errorf("the second token is %d, and the first %d", token, grant.Token)
		}
		if writer.Valid() || reader.Valid() || third.Valid() {
			t.Error("not alone")
		}
		second.Release()
		coordtest.Soon(t, writer)
		writer.Release()
		coordtest.Soon(t, reader)
		reader.Release()
		coordtest.Soon(t, third)
	})
}

// TestAnUpgradeEndsWithTheSession: both locks are lost, and nobody queues up for the second one anew.
func TestAnUpgradeEndsWithTheSession(t *testing.T) {
	for _, held := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
			coordtest.Soon(t, up)
			reader := b.ReadWrite(lockPath).Read().Acquire(t.Context())
			coordtest.Soon(t, reader)
			write := queueFrom(a.ReadWrite(lockPath).Write(), context.WithoutCancel(up.Context(t.Context())))
			if held {
				reader.Release()
				coordtest.Soon(t, write)
			}
			if err := srv.Expire(a.SessionID()); err != nil {
				t.Fatal(err)
			}
			<-up.Done()
			<-write.Done()
			want := coordinator.ErrNotAcquired
			if held {
				want = coordinator.ErrSessionExpired
			}
			if err := write.Err(); !errors.Is(err, want) || !errors.Is(up.Err(), coordinator.ErrSessionExpired) {
				t.Errorf("held %v: %v, %v", held, err, up.Err())
			}
			reader.Release()
			synctest.Wait()
			coordtest.Soon(t, b.ReadWrite(lockPath).Write().Acquire(t.Context()))
		})
	}
}

// TestTheReplyToAnUpgradeIsLost: the node is found again, and so is the token, which is smaller than that of a writer who waits.
func TestTheReplyToAnUpgradeIsLost(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		writer := coordtest.Queue(b.ReadWrite(lockPath).Write())
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session != a.SessionID() || q.Op != zktest.OpMulti || len(q.Parts) != 2 {
				return zktest.Pass()
			}
			srv.Intercept(nil)
			return zktest.CutAfter()
		})
		write := a.ReadWrite(lockPath).Write().Acquire(up.Context(t.Context()))
		grant := coordtest.Soon(t, write)
		if nodes := srv.Children(lockPath); len(nodes) != 3 {
			t.Errorf("nodes %v", nodes)
		}
		write.Release()
		up.Release()
		if token := coordtest.Soon(t, writer).Token; token <= grant.Token {
			t.Errorf("a token of %d behind %d", token, grant.Token)
		}
	})
}

// TestReentrantUpgradable: whoever has entered again upgrades as well, and the node goes with the last of all.
func TestReentrantUpgradable(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Reentrant()), coordtest.Connect(t, srv).ReadWrite(lockPath)
		outer := a.Upgradable().Acquire(t.Context())
		coordtest.Soon(t, outer)
		inner := a.Upgradable().Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		write := a.Write().Acquire(context.WithoutCancel(inner.Context(t.Context())))
		coordtest.Soon(t, write)
		writer := coordtest.Queue(b.Write())
		for _, l := range []*coordinator.Acquisition{inner, write, outer} {
			time.Sleep(time.Second)
			if writer.Valid() {
				t.Error("somebody came in before the last release")
			}
			l.Release()
			<-l.Done()
		}
		coordtest.Soon(t, writer)
	})
}

// TestTheQueueShowsWhoUpgrades: who holds, by what kind.
func TestTheQueueShowsWhoUpgrades(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
		up := a.Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		curators := srv.Create(lockPath+"/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000001", nil)
		if err := curators; err != nil {
			t.Fatal(err)
		}
		if err := srv.SetSequence(lockPath, 2); err != nil {
			t.Fatal(err)
		}
		coordtest.Soon(t, b.Read().Acquire(t.Context()))
		queueFrom(a.Write(), up.Context(t.Context()))
		coordtest.Queue(b.Upgradable())
		found, err := b.Queue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []events.Contender{
			{Kind: events.KindUpgradable, Holding: true}, {Kind: events.KindRead}, {Kind: events.KindRead, Holding: true},
			{Kind: events.KindUpgrade}, {Kind: events.KindUpgradable},
		}
		if len(found) != len(want) {
			t.Fatalf("%+v", found)
		}
		for i, c := range found {
			if c.Kind != want[i].Kind || c.Holding != want[i].Holding {
				t.Errorf("%d: %v, holding %v, want %v, %v", i, c.Kind, c.Holding, want[i].Kind, want[i].Holding)
			}
		}
	})
}

// TestCuratorsReadersWaitForAnUpgradableOne: it does not wait for them when it upgrades, but for those ahead of it.
func TestCuratorsReadersWaitForAnUpgradableOne(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const curators = lockPath + "/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__"
		c := coordtest.Connect(t, srv)
		coordtest.Soon(t, c.ReadWrite(lockPath).Read().Acquire(t.Context())) // number 0, and makes the directory
		if err := srv.Create(curators+"0000000001", nil); err != nil {
			t.Fatal(err)
		}
		if err := srv.SetSequence(lockPath, 2); err != nil {
			t.Fatal(err)
		}
		up := c.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
		if node := coordtest.Soon(t, up).Node; node[len(node)-1] != '2' {
			t.Fatal(node)
		}
		if err := srv.Create(curators+"0000000003", nil); err != nil {
			t.Fatal(err)
		}
		if err := srv.SetSequence(lockPath, 4); err != nil {
			t.Fatal(err)
		}
		write := queueFrom(c.ReadWrite(lockPath).Write(), up.Context(t.Context()))
		for _, child := range srv.Children(lockPath) {
			if name, _ := events.ParseName(child); name.Kind == events.KindRead && name.Seq < 2 {
				if write.Valid() {
					t.Errorf("upgraded beside %s", child)
				}
				if err := srv.Delete(lockPath + "/" + child); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		coordtest.Soon(t, write)
	})
}

// TestTxnOfAnUpgrade: it depends on both nodes, and says nothing of that to its caller.
func TestTxnOfAnUpgrade(t *testing.T) {
	for _, victim := range []events.Kind{0, events.KindUpgradable, events.KindUpgrade} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			if err := srv.Create("/data", nil); err != nil {
				t.Fatal(err)
			}
			rw := coordtest.Connect(t, srv).ReadWrite(lockPath)
			up := rw.Upgradable().Acquire(t.Context())
			coordtest.Soon(t, up)
			write := rw.Write().Acquire(up.Context(t.Context()))
			coordtest.Soon(t, write)
			srv.Intercept(func(q zktest.Request) zktest.Action { // before its owner can hear of it
				if q.Op == zktest.OpMulti && len(q.Parts) == 4 {
					srv.Intercept(nil)
					for _, child := range srv.Children(lockPath) {
						if name, _ := events.ParseName(child); name.Kind == victim {
							if err := srv.Delete(lockPath + "/" + child); err != nil {
								t.Error(err)
							}
						}
					}
				}
				return zktest.Pass()
			})
			set := &zk.SetDataRequest{Path: "/data", Data: []byte("x"), Version: -1}
			got, err := write.Txn(t.Context(), set, &zk.SetDataRequest{Path: "/data", Data: []byte("y"), Version: -1})
			data, _ := srv.Data("/data")
			switch {
			case victim == 0 && (err != nil || len(got) != 2 || string(data) != "y"):
				t.Errorf("%+v, %v, %q", got, err, data)
			case victim != 0 && (!errors.Is(err, coordinator.ErrNodeRemoved) || len(data) > 0):
				t.Errorf("without %v: %v, %q", victim, err, data)
			}
		})
	}
}

// TestTxnOfAnUpgradeThatFails: which operation it was.
func TestTxnOfAnUpgradeThatFails(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath)
		up := rw.Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		write := rw.Write().Acquire(up.Context(t.Context()))
		coordtest.Soon(t, write)
		got, err := write.Txn(t.Context(), &zk.DeleteRequest{Path: "/none", Version: -1})
		if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, coordinator.ErrNodeRemoved) || len(got) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
