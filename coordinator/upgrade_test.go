package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUpgrade: one upgradable reader beside readers, who becomes the writer when they have left, ahead of writers
// who wait for longer, and goes back.
func TestUpgrade(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
		before := b.Read().Acquire(t.Context())
		coordtest.Soon(t, before)
		up := a.Upgradable().Acquire(t.Context())
		upGrant := coordtest.Soon(t, up)
		beside := b.Read().Acquire(t.Context())
		besideGrant := coordtest.Soon(t, beside)
		second := coordtest.Queue(b.Upgradable())
		writer := coordtest.Queue(b.Write())
		behind := coordtest.Queue(b.Read())
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
		grant := coordtest.Soon(t, write)
		if grant.Token < upGrant.Token || grant.Token < besideGrant.Token {
			t.Errorf("the upgrade's token is %d, and those before it %d and %d", grant.Token, upGrant.Token, besideGrant.Token)
		}
		time.Sleep(time.Second)
		if !up.Valid() || writer.Valid() || second.Valid() || behind.Valid() {
			t.Error("somebody came in beside the writer, or the upgradable reader is lost")
		}
		write.Release()
		<-write.Done()
		beside = coordtest.Queue(a.Read()) // behind the writer who waits
		time.Sleep(time.Second)
		if !up.Valid() || writer.Valid() || beside.Valid() {
			t.Error("the release of the upgrade let somebody in")
		}
		up.Release()
		coordtest.Soon(t, second)
		second.Release()
		if token := coordtest.Soon(t, writer).Token; token <= grant.Token {
			t.Errorf("the token of the writer who waited in between is %d, and the upgrade's %d", token, grant.Token)
		}
		writer.Release()
		coordtest.Soon(t, behind)
		coordtest.Soon(t, beside)
	})
}

// TestAnUpgradeInAnyOrder: the two are released in either order, before and behind the grant of the second. The upgradable
// reader's node stays as long as either is there, and nothing is left when both are gone.
func TestAnUpgradeInAnyOrder(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, up, write, reader, writer *coordinator.Acquisition){
		"the upgradable one first": func(t *testing.T, up, write, reader, writer *coordinator.Acquisition) {
			reader.Release()
			coordtest.Soon(t, write)
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
			if write.Valid() || writer.Valid() || coordtest.IsClosed(write.Done()) {
				t.Errorf("beside a reader, or %v", write.Err())
			}
			reader.Release()
			coordtest.Soon(t, write)
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
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
				up := a.Upgradable().Acquire(t.Context())
				coordtest.Soon(t, up)
				reader := b.Read().Acquire(t.Context())
				coordtest.Soon(t, reader)
				write := queueFrom(a.Write(), context.WithoutCancel(up.Context(t.Context())))
				writer := coordtest.Queue(b.Write())
				play(t, up, write, reader, writer)
				coordtest.Soon(t, writer)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := b.Events(t.Context())
		up := a.ReadWrite(lockPath).Upgradable().Acquire(t.Context())
		coordtest.Soon(t, up)
		writer := coordtest.Queue(a.ReadWrite(lockPath).Write())
		reader := coordtest.Queue(b.ReadWrite(lockPath).Read())
		write := a.ReadWrite(lockPath).Write().Acquire(up.Context(t.Context()))
		coordtest.Soon(t, write)
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
		coordtest.Soon(t, reader)
	})
}

// TestAnUpgradeIsLostWithEitherNode: somebody deletes one of them, while it waits and while it is held.
func TestAnUpgradeIsLostWithEitherNode(t *testing.T) {
	for _, kind := range []events.Kind{events.KindUpgradable, events.KindUpgrade} {
		for _, held := range []bool{false, true} {
			t.Run(kind.String(), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := coordtest.Connect(t, srv).ReadWrite(lockPath), coordtest.Connect(t, srv).ReadWrite(lockPath)
					up := a.Upgradable().Acquire(t.Context())
					coordtest.Soon(t, up)
					reader := b.Read().Acquire(t.Context())
					coordtest.Soon(t, reader)
					write := queueFrom(a.Write(), context.WithoutCancel(up.Context(t.Context())))
					writer := coordtest.Queue(b.Write())
					if held {
						reader.Release()
						coordtest.Soon(t, write)
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
						if err := write.Err(); !coordtest.IsClosed(write.Done()) || !errors.Is(err, coordinator.ErrNodeRemoved) {
							t.Errorf("held: %v", err)
						}
						if up.Valid() != (kind == events.KindUpgrade) {
							t.Errorf("the upgradable reader holds: %v", up.Valid())
						}
					case kind == events.KindUpgrade: // it queues up anew
						reader.Release()
						coordtest.Soon(t, write)
						write.Release()
					default:
						if err := write.Err(); !coordtest.IsClosed(write.Done()) || !errors.Is(err, coordinator.ErrNotAcquired) {
							t.Errorf("waiting: %v", err)
						}
						reader.Release()
					}
					up.Release()
					coordtest.Soon(t, writer)
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
