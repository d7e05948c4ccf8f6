package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A racer reads paths, acquires and releases the lock at each, and answers with "ok" or an error. Curator's and kazoo's are processes.
const (
	pythonRacer = `
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=30)
client.start()
for line in sys.stdin:
    try:
        lock = client.Lock(line.strip())
        lock.acquire()
        lock.release()
        print("ok", flush=True)
    except Exception as e:
        print(type(e).__name__, e, flush=True)
client.stop()
`
	javaRacerClass = "Racer"
	javaRacer      = `
import java.io.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public class Racer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 30000, 30000, new RetryOneTime(100));
        client.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String path; (path = in.readLine()) != null; ) {
            String said = "ok";
            try {
                InterProcessMutex lock = new InterProcessMutex(client, path);
                lock.acquire();
                lock.release();
            } catch (Exception e) {
                said = e.toString();
            }
            System.out.println(said);
        }
        client.close();
    }
}
`
)

// racer acquires and releases the lock at the path.
type racer func(ctx context.Context, path string) error

func (family family) racers(t *testing.T, e *ensemble.Ensemble, n int) (all []racer) {
	t.Helper()
	installation := ensemble.Installed(t)
	folder := t.TempDir()
	java, python := peers.Curator{}, peers.Kazoo{}
	var err error
	switch family {
	case curator:
		if java, err = peers.FindCurator(installation); err == nil {
			err = java.Compile(t.Context(), folder, javaRacerClass, javaRacer)
		}
	case kazoo:
		python, err = peers.FindKazoo(t.Context())
	default:
	}
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		switch family {
		case curator, kazoo:
			cmd := python.Command(pythonRacer, e.Connect())
			if family == curator {
				cmd = lean(java.Command(folder, javaRacerClass, e.Connect()))
			}
			d, err := peers.StartDialogue(cmd)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { eventstest.Check(t, d.Close()) })
			all = append(all, func(ctx context.Context, path string) error {
				if said, err := d.Ask(ctx, path); err != nil || said != "ok" {
					return fmt.Errorf("%s %w", said, err)
				}
				return nil
			})
		default:
			conn, _, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogInfo(false))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Close)
			all = append(all, func(_ context.Context, path string) error {
				lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
				if err := lock.Lock(); err != nil {
					return err
				}
				return lock.Unlock()
			})
		}
	}
	return all
}

// deletes is a hook that counts our deletes: those that were executed, and those that found a directory in use, or none.
type deletes struct{ done, refused atomic.Int64 }

// OnRequest counts it.
func (d *deletes) OnRequest(r coordinator.RequestInfo) {
	switch {
	case r.Op == "delete" && r.Err == nil:
		d.done.Add(1)
	case r.Op == "delete":
		d.refused.Add(1)
	}
}

// TestOthersRaceWithRemovals: zkgrant removes directories that it has made and left, while others take locks there. Each cycle is at a
// fresh path, and its start is spread over the moments around the removal. Nobody hears of an error. Kazoo's lock fails without its
// directory, so a contender of ours beside it has to be one with kazoo's names, and its directories stay.
func TestOthersRaceWithRemovals(t *testing.T) {
	eventstest.NeedsServers(t)
	cycles := eventstest.Amount(300, 10_000)
	for _, c := range []struct {
		family family
		lock   func(*coordinator.Coordinator, string) *coordinator.Lock
		stay   bool
	}{
		{stock, func(c *coordinator.Coordinator, path string) *coordinator.Lock { return c.Mutex(path) }, false},
		{curator, func(c *coordinator.Coordinator, path string) *coordinator.Lock { return c.Mutex(path) }, false},
		{kazoo, func(c *coordinator.Coordinator, path string) *coordinator.Lock {
			return c.Mutex(path, coordinator.AsKazoo())
		}, true},
	} {
		t.Run(string(c.family), func(t *testing.T) {
			race(t, c.family, c.lock, c.stay, cycles)
		})
	}
}

func race(t *testing.T, f family, lock func(*coordinator.Coordinator, string) *coordinator.Lock, stay bool, cycles int) {
	t.Helper()
	const crews = 4
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "3600000"), ensemble.Heap("256m"))
	var seen deletes
	c, err := coordinator.Connect(t.Context(), e.Connect(), coordinator.WithHooks(&seen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	racers := f.racers(t, e, crews)

	type cycle struct {
		path string
		due  time.Time
	}
	todo := make(chan cycle, cycles)
	var fails, late atomic.Int64
	var first sync.Map
	var running sync.WaitGroup
	for _, r := range racers {
		running.Go(func() {
			for x := range todo {
				time.Sleep(time.Until(x.due))
				if time.Since(x.due) > 50*time.Millisecond {
					late.Add(1)
				}
				if err := r(t.Context(), x.path); err != nil {
					fails.Add(1)
					first.LoadOrStore("first", err)
				}
			}
		})
	}
	for i := range cycles {
		path := fmt.Sprintf("/race/order-%d", i)
		a := lock(c, path).Acquire(t.Context())
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Release()
		<-a.Done()
		due := time.Now().Add(recipes.LeftoverAfter + time.Duration(rand.IntN(200)-50)*time.Millisecond)
		todo <- cycle{path, due}
		time.Sleep(4 * time.Millisecond)
	}
	close(todo)
	running.Wait()
	text, _ := first.Load("first")
	t.Logf("%d cycles, %d late: %d failed (first: %v); of ours %d deletes done, and %d found a directory in use or none",
		cycles, late.Load(), fails.Load(), text, seen.done.Load(), seen.refused.Load())
	if n := fails.Load(); n > 0 {
		t.Errorf("%d of %d cycles failed, the first with %v; want none", n, cycles, text)
	}
	raced := seen.done.Load() > int64(cycles)*5/4
	if raced == stay {
		t.Errorf("%d deletes of nodes and directories in %d cycles, want that directories are removed: %v", seen.done.Load(), cycles, !stay)
	}
}
