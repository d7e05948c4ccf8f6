package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestTimeToLive(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, zktest.ExtendedTypes(), zktest.CheckInterval(time.Second))
		c := memoryClient(t, s, 10*time.Second)
		p, err := c.CreateTTL("/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		if _, err := c.Set(p, nil, -1); err != nil { // a change starts the time anew
			t.Fatal(err)
		}
		c.make(p+"/child", 0)
		time.Sleep(time.Minute) // and a child keeps its parent
		if !s.Exists(p) {
			t.Fatal("gone with a child in it")
		}
		// Changed while the child still keeps it: it is overdue, and without either it
		// would go at the next check.
		if _, err := c.Set(p, nil, -1); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(p+"/child", -1); err != nil {
			t.Fatal(err)
		}
		changed := time.Now()
		if _, _, _, err := c.GetW(p); err != nil {
			t.Fatal(err)
		}
		c.await(0, "deletion", func(e zk.Event) bool { return e.Type == zk.EventNodeDeleted && e.Path == p })
		if d := time.Since(changed); d <= 10*time.Second || d > 11*time.Second {
			t.Errorf("it lived for %v, want 10s and up to the next check", d)
		}
		if owner := s.Owner(p); owner != 0 {
			t.Errorf("owner %#x", owner)
		}
	})
}

func TestReapTakesWhatIsOverdue(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, zktest.ExtendedTypes())
		c := memoryClient(t, s, 10*time.Second)
		if _, err := c.CreateTTL("/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Second); err != nil {
			t.Fatal(err)
		}
		if n := s.Reap(); n != 0 {
			t.Errorf("reaped %d before the time", n)
		}
		time.Sleep(2 * time.Second)
		if n := s.Reap(); n != 1 || s.Exists("/t") {
			t.Errorf("reaped %d", n)
		}
	})
	if _, err := zktest.New(zktest.CheckInterval(0)); err == nil {
		t.Error("a check interval of zero was accepted")
	}
}
