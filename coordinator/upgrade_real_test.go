package coordinator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealUpgrade has readers, writers who give up, and upgradable readers who upgrade meet on a real ensemble, each of its servers
// with a session: a writer is alone, one is upgradable at a time, nobody writes between an upgradable reader and its
// upgrade, and the tokens of writers grow.
func TestRealUpgrade(t *testing.T) {
	eventstest.NeedsServers(t)
	const path, workers, rounds = "/locks/upgrade", 9, 30
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	var cs []*coordinator.Coordinator
	for i := range 3 {
		cs = append(cs, coordtest.ConnectReal(t, e.Addr(i)))
	}
	w := &watchman{t: t}
	var value, upgradables atomic.Int64
	var upgrades atomic.Int64
	upgrade := func(rw *coordinator.ReadWrite, first bool) error {
		up := rw.Upgradable().Acquire(ctx)
		defer up.Release()
		if _, err := up.Wait(ctx); err != nil {
			return err
		}
		if n := upgradables.Add(1); n != 1 {
			t.Errorf("%d upgradable at a time", n)
		}
		w.readers.Add(1)
		w.look()
		read := value.Load()
		w.readers.Add(-1)
		upgradables.Add(-1)
		write := rw.Write().Acquire(context.WithoutCancel(up.Context(ctx)))
		defer write.Release()
		if first {
			up.Release()
		}
		grant, err := write.Wait(ctx)
		if errors.Is(err, coordinator.ErrNotAcquired) && first {
			return nil // it was released before the wait began
		}
		if err != nil {
			return err
		}
		upgrades.Add(1)
		w.writers.Add(1)
		w.look()
		if before := w.token.Swap(grant.Token); before > grant.Token {
			t.Errorf("token %d after %d", grant.Token, before)
		}
		if now := value.Swap(read + 1); now != read {
			t.Errorf("read %d, and %d when it was to be written", read, now)
		}
		w.writers.Add(-1)
		return nil
	}
	var wait sync.WaitGroup
	for i := range workers {
		rw := cs[i%len(cs)].ReadWrite(path)
		wait.Go(func() {
			for round := range rounds {
				var err error
				switch (i + round) % 4 {
				case 0:
					err = upgrade(rw, round%5 == 4)
				case 1: // often it gives up, and lets readers pass who have waited for it
					write := rw.Write().Acquire(ctx, coordinator.WithMaxWait(time.Duration(round+1)*time.Millisecond))
					if _, err = write.Wait(ctx); err == nil {
						w.writers.Add(1)
						w.look()
						value.Add(1)
						w.writers.Add(-1)
					} else if errors.Is(err, coordinator.ErrTimeout) {
						err = nil
					}
					write.Release()
				default:
					err = w.read(ctx, rw.Read(), func() {})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d upgrades", upgrades.Load())
	if upgrades.Load() < rounds {
		t.Errorf("only %d upgrades", upgrades.Load())
	}
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), path, 0)
}

// TestRealUpgradeOneByOne: what is promised of an upgrade, on a real server: nodes by their kinds, tokens, either node's loss.
func TestRealUpgradeOneByOne(t *testing.T) {
	eventstest.NeedsServers(t)
	const path = "/locks/upgrade"
	e := ensemble.Start(t, 1)
	ctx := coordtest.RealContext(t)
	raw := coordtest.RawClient(t, e.Addr(0))
	a, b := coordtest.ConnectReal(t, e.Addr(0)).ReadWrite(path), coordtest.ConnectReal(t, e.Addr(0)).ReadWrite(path)
	for _, victim := range []events.Kind{0, events.KindUpgradable, events.KindUpgrade} {
		up := a.Upgradable().Acquire(ctx)
		coordtest.GrantOf(t, up)
		reader := b.Read().Acquire(ctx)
		readerGrant := coordtest.GrantOf(t, reader)
		writer := b.Write().Acquire(ctx)
		coordtest.Queued(t, raw, path, 3)
		write := a.Write().Acquire(context.WithoutCancel(up.Context(ctx)))
		names := coordtest.Queued(t, raw, path, 4)
		for i, kind := range []events.Kind{events.KindUpgradable, events.KindRead, events.KindWrite, events.KindUpgrade} {
			if name, _ := events.ParseName(names[i]); name.Kind != kind {
				t.Errorf("node %d is %s, and not of %v", i, names[i], kind)
			}
		}
		reader.Release()
		grant := coordtest.GrantOf(t, write)
		if grant.Token < readerGrant.Token {
			t.Errorf("a token of %d behind a reader's of %d", grant.Token, readerGrant.Token)
		}
		for _, name := range names {
			if n, _ := events.ParseName(name); victim != 0 && n.Kind == victim {
				if err := raw.Delete(path+"/"+name, -1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if victim != 0 {
			select {
			case lost := <-write.Lost():
				if lost.Reason != events.ReasonNodeRemoved {
					t.Errorf("lost: %v", lost.Reason)
				}
			case <-ctx.Done():
				t.Fatalf("%v was removed, and nobody was told", victim)
			}
		}
		up.Release()
		if victim == 0 && !write.Valid() {
			t.Error("the writer is lost with the release of the upgradable reader")
		}
		write.Release()
		if token := coordtest.GrantOf(t, writer).Token; token <= grant.Token {
			t.Errorf("a token of %d behind %d", token, grant.Token)
		}
		writer.Release()
		coordtest.Queued(t, raw, path, 0)
	}
}
