package coordinator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// What only a real server can confirm.

// makeNodes makes persistent nodes that everybody may use.
func makeNodes(t *testing.T, conn *zk.Conn, nodes ...[2]string) {
	t.Helper()
	for _, node := range nodes {
		_, err := conn.Create(node[0], []byte(node[1]), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("create %s: %v", node[0], err)
		}
	}
}

func TestBadInputOnARealServer(t *testing.T) {
	e := ensemble.Start(t, 1, ensemble.Property("zookeeper.enforceQuota", "true"))
	addr := e.Addr(0)
	conn := coordtest.RawClient(t, addr)
	t.Run("denied", func(t *testing.T) { testDeniedReal(t, addr, conn) })
	t.Run("identity refused", func(t *testing.T) {
		_, err := coordinator.Connect(t.Context(), addr, coordinator.WithAuth("crystal", []byte("ball")))
		if !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("Connect = %v", err)
		}
	})
	t.Run("quota", func(t *testing.T) { testQuotaReal(t, addr, conn) })
	t.Run("size limit", func(t *testing.T) { testSizeLimitReal(t, addr) })
	t.Run("reaper", func(t *testing.T) { testReaperReal(t, addr) })
	t.Run("TLS to a plain port", func(t *testing.T) {
		says(t, "TLS", connectOnce(t, addr, "zk.example.com", &tls.Config{InsecureSkipVerify: true}), "tls: ")
	})
}

func testDeniedReal(t *testing.T, addr string, conn *zk.Conn) {
	n := 0
	for name, d := range denials() {
		n++
		chroot := fmt.Sprintf("/denied%d", n)
		t.Run(name, func(t *testing.T) {
			makeNodes(t, conn, [2]string{chroot})
			makeDir(t, conn, chroot, d.perms)
			var victim *coordinator.Coordinator
			d.deny(t, func(options ...coordinator.Option) *coordinator.Coordinator {
				return coordtest.ConnectReal(t, addr+chroot, options...)
			}, func(c *coordinator.Coordinator) { victim = c })
			_, stat, err := conn.Exists(chroot + lockPath)
			if err != nil {
				t.Fatal(err)
			}
			want := d.left
			if d.ahead != nil {
				want++
			}
			if int(stat.NumChildren) != want {
				t.Errorf("%d nodes, want %d", stat.NumChildren, want)
			}
			if err := victim.Close(); err != nil {
				t.Error(err)
			}
			if _, stat, err := conn.Exists(chroot + lockPath); err != nil || int(stat.NumChildren) != want-d.left {
				t.Errorf("%d nodes after Close, want %d: %v", stat.NumChildren, want-d.left, err)
			}
		})
	}
}

// testQuotaReal lets two nodes exist below the quota's path beside itself: the lock's
// directory and one contender.
func testQuotaReal(t *testing.T, addr string, conn *zk.Conn) {
	makeNodes(t, conn, [2]string{"/limited"}, [2]string{"/zookeeper/quota/limited"},
		[2]string{"/zookeeper/quota/limited/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"},
		[2]string{"/zookeeper/quota/limited/zookeeper_stats", "count=1,bytes=0"})
	c := coordtest.ConnectReal(t, addr+"/limited")
	a, _ := coordtest.Hold(t, c.Mutex("/lock"))
	b := c.Mutex("/lock").Acquire(t.Context())
	if _, err := b.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("Err = %v", err)
	}
	elsewhere := c.Mutex("/elsewhere").Acquire(t.Context()) // the directory is too much already
	if _, err := elsewhere.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("Err = %v", err)
	}
	if !a.Valid() {
		t.Error("the holder lost it")
	}
	a.Release()
	<-a.Done()
	coordtest.Hold(t, c.Mutex("/lock"))
}

// testSizeLimitReal: the server takes what is not refused here.
func testSizeLimitReal(t *testing.T, addr string) {
	c := coordtest.ConnectReal(t, addr)
	id := c.SessionID()
	data := make([]byte, 0xfffff-1<<10-len(lockPath)-30)
	a, _ := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithData(data))
	a.Release()
	<-a.Done()
	long := c.Mutex("/" + strings.Repeat("a", len(data)))
	b, _ := coordtest.Hold(t, long)
	b.Release()
	<-b.Done()
	if a.Err() != nil || b.Err() != nil || c.SessionID() != id || c.State() != coordinator.StateConnected {
		t.Errorf("%v, %v, session %x after %x, %v", a.Err(), b.Err(), c.SessionID(), id, c.State())
	}
}

// testReaperReal takes and gives back locks whose containers the server reaps five
// times a second, from several sessions.
func testReaperReal(t *testing.T, addr string) {
	const workers, dirs, length = 4, 8, 3 * time.Second
	var reborn, cycles atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for w := range workers {
		c := coordtest.ConnectReal(t, addr)
		all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				a := c.Mutex(fmt.Sprintf("/reaped/%d/%d", w, i%dirs)).Acquire(t.Context())
				grant, err := a.Wait(t.Context())
				if err != nil {
					t.Errorf("Err = %v", err)
					return
				}
				cycles.Add(1)
				if strings.HasSuffix(grant.Node, "lock-0000000000") {
					reborn.Add(1)
				}
				a.Release()
				select { // the more often, the more often it is empty when the reaper looks
				case <-a.Done():
				case <-t.Context().Done():
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d cycles, %d of them in a new directory", cycles.Load(), reborn.Load())
	if reborn.Load() <= workers*dirs {
		t.Error("nothing was reaped")
	}
}
