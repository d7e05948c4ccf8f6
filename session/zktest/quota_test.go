package zktest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// overQuota tells whether the server answered QuotaExceeded, for which the client
// library has no name.
func overQuota(err error) bool { return err != nil && strings.HasSuffix(err.Error(), " -125") }

func TestLimitNodes(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		c := memoryClient(t, s, 10*time.Second)
		open := zk.WorldACL(zk.PermAll)
		c.make("/locks", 0)
		if err := s.LimitNodes("/locks", 2); err != nil {
			t.Fatal(err)
		}
		p := c.make("/locks/a", 0)
		if _, err := c.Create("/locks/b", nil, zk.FlagEphemeral|zk.FlagSequence, open); !overQuota(err) {
			t.Errorf("a third node: %v", err)
		}
		c.make("/locksmith", 0) // not below it
		if err := s.Create("/locks/mine", nil); err != nil {
			t.Errorf("the test itself is not limited: %v", err)
		}
		if err := s.Delete("/locks/mine"); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(p, -1); err != nil {
			t.Fatal(err)
		}
		c.make("/locks/c", 0)
		if err := s.LimitNodes("/locks", -1); err != nil {
			t.Fatal(err)
		}
		c.make("/locks/d", 0)
		if err := s.LimitNodes("/", 1); !errors.Is(err, zktest.BadArguments) {
			t.Errorf("a quota for the root: %v", err)
		}
	})
}

func TestQuotasAreNotEnforcedByDefault(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		c := memoryClient(t, s, 10*time.Second)
		for _, p := range []string{"/q", "/zookeeper/quota/q"} {
			c.make(p, 0)
		}
		limits := []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1")
		if _, err := c.Create("/zookeeper/quota/q/zookeeper_limits", limits, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		c.make("/q/over", 0)
	})
}
