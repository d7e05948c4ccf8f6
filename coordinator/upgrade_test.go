package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUpgrade: one upgradable reader beside readers, who becomes the writer when they have left, ahead of writers
// who wait for longer, and goes back.
func TestUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv).ReadWrite(lockPath), connect(t, srv).ReadWrite(lockPath)
		before := b.Read().Acquire(t.Context())
		soon(t, before)
		up := a.Upgradable().Acquire(t.Context())
		upGrant := soon(t, up)
		beside := b.Read().Acquire(t.Context())
		besideGrant := soon(t, beside)
		second := queue(b.Upgradable())
		writer := queue(b.Write())
		behind := queue(b.Read())
		write := a.Write().Acquire(up.Context(t.Context()))
		synctest.Wait()
		for name, acq := range map[string]*coordinator.Acquisition{"another upgradable": second, "a writer": writer, "a reader behind him": behind, "the upgrade": write} {
			if acq.Valid() {
				t.Errorf("%s holds beside readers and an upgradable one", name)
			}
		}
		before.Release()
		time.Sleep(time.Second)
		if write.Valid() {
			t.Error("upgraded beside a reader who came in beside it")
		}
		beside.Release()
		grant := soon(t, write)
		if grant.Token < upGrant.Token || grant.Token < besideGrant.Token {
			t.Errorf("the upgrade's token is %d, and those before it %d and %d", grant.Token, upGrant.Token, besideGrant.Token)
		}
		time.Sleep(time.Second)
		if !up.Valid() || writer.Valid() || second.Valid() || behind.Valid() {
			t.Error("somebody came in beside the writer, or the upgradable reader is lost")
		}
		write.Release()
		<-write.Done()
		beside = queue(a.Read()) // behind the writer who waits
		time.Sleep(time.Second)
		if !up.Valid() || writer.Valid() || beside.Valid() {
			t.Error("the release of the upgrade let somebody in")
		}
		up.Release()
		soon(t, second)
		second.Release()
		if token := soon(t, writer).Token; token <= grant.Token {
			t.Errorf("the token of the writer who waited in between is %d, and the upgrade's %d", token, grant.Token)
		}
		writer.Release()
		soon(t, behind)
		soon(t, beside)
	})
}

// TestAnUpgradeInAnyOrder: the two are released in either order, before and behind the grant of the second. The upgradable
// reader's node stays as long as either is there, and nothing is left when both are gone.
func TestAnUpgradeInAnyOrder(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, up, write, reader, writer *coordinator.Acquisition){
		"the upgradable one first": func(t *testing.T, up, write, reader, writer *coordinator.Acquisition) {
			reader.Release()
			soon(t, write)
			up.Release()
			<-up.Done()
			time.Sleep(time.Second)
			if !write.Valid() || writer.Valid() {
				t.Error("the writer is lost, or not alone")
			}
			write.Release()
		},
		"the upgradable one, while the other waits": func(t *testing.T, up, write, reader, writer *coordinator.Acquisition) {
			up.Release()
			<-up.Done()
			time.Sleep(time.Second)
			if write.Valid() || writer.Valid() || isClosed(write.Done()) {
				t.Errorf("beside a reader, or %v", write.Err())
			}
			reader.Release()
			soon(t, write)
			time.Sleep(time.Second)
			if writer.Valid() {
				t.Error("not alone")
			}
			write.Release()
		},
		"both, while the other waits": func(_ *testing.T, up, write, reader, _ *coordinator.Acquisition) {
			up.Release()
			write.Release()
			reader.Release()
		},
		"withdrawn, and then the upgradable one": func(t *testing.T, up, write, reader, writer *coordinator.Acquisition) {
			write.Release()
			<-write.Done()
			time.Sleep(time.Second)
			if !up.Valid() || !reader.Valid() || writer.Valid() {
				t.Error("withdrawn, and the upgradable reader is not what it was")
			}
			reader.Release()
			up.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := connect(t, srv).ReadWrite(lockPath), connect(t, srv).ReadWrite(lockPath)
				up := a.Upgradable().Acquire(t.Context())
				soon(t, up)
				reader := b.Read().Acquire(t.Context())
				soon(t, reader)
				write := queueFrom(a.Write(), context.WithoutCancel(up.Context(t.Context())))
				writer := queue(b.Write())
				play(t, up, write, reader, writer)
				soon(t, writer)
				writer.Release()
				<-writer.Done()
				synctest.Wait()
				if left := srv.Children(lockPath); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}

// queueFrom is queue with a context.
func queueFrom(l *coordinator.Lock, ctx context.Context) *coordinator.Acquisition { //nolint:revive // as the others have it
	a := l.Acquire(ctx)
	synctest.Wait()
	return a
}

// TestAReaderGivesWayToAnUpgrade: it has waited for a writer who gives up, behind whom the upgrade did not wait for it.
func TestAReaderGivesWayToAnUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
		stream := b.Events(t.Context())
		up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
		soon(t, up)
		writer := queue(a.ReadWrite(lockPath).Write())
		reader := queue(b.ReadWrite(lockPath).Read())
		write := a.ReadWrite(lockPath).Write().Acquire(up.Context(t.Context()))
		soon(t, write)
		writer.Release()
		time.Sleep(time.Second)
		if reader.Valid() || !write.Valid() {
			t.Error("a reader beside the writer")
		}
		for requeued := false; !requeued; {
			select {
			case e := <-stream:
				_, requeued = e.(events.Requeued)
			case <-time.After(time.Second):
				t.Fatal("it did not say that it has another place")
			}
		}
		write.Release()
		soon(t, reader)
	})
}

// TestAnUpgradeIsLostWithEitherNode: somebody deletes one of them, while it waits and while it is held.
func TestAnUpgradeIsLostWithEitherNode(t *testing.T) {
	for _, kind := range []events.Kind{events.KindUpgradable, events.KindUpgrade} {
		for _, held := range []bool{false, true} {
			t.Run(kind.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := connect(t, srv).ReadWrite(lockPath), connect(t, srv).ReadWrite(lockPath)
					up := a.Upgradable().Acquire(t.Context())
					soon(t, up)
					reader := b.Read().Acquire(t.Context())
					soon(t, reader)
					write := queueFrom(a.Write(), context.WithoutCancel(up.Context(t.Context())))
					writer := queue(b.Write())
					if held {
						reader.Release()
						soon(t, write)
					}
					for _, child := range srv.Children(lockPath) {
						if name, _ := events.ParseName(child); name.Kind == kind {
							if err := srv.Delete(lockPath + "/" + child); err != nil {
								t.Fatal(err)
							}
						}
					}
					synctest.Wait()
					switch {
					case held:
						if err := write.Err(); !isClosed(write.Done()) || !errors.Is(err, coordinator.ErrNodeRemoved) {
							t.Errorf("held: %v", err)
						}
						if up.Valid() != (kind == events.KindUpgrade) {
							t.Errorf("the upgradable reader holds: %v", up.Valid())
						}
					case kind == events.KindUpgrade: // it queues up anew
						reader.Release()
						soon(t, write)
						write.Release()
					default:
						if err := write.Err(); !isClosed(write.Done()) || !errors.Is(err, coordinator.ErrNotAcquired) {
							t.Errorf("waiting: %v", err)
						}
						reader.Release()
					}
					up.Release()
					soon(t, writer)
					writer.Release()
					<-writer.Done()
					synctest.Wait()
					if left := srv.Children(lockPath); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
				})
			})
		}
	}
}
