package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// far is a round trip that takes longer than anything else here.
const far = 300 * time.Millisecond

// oneRoundTrip fails the test unless the work, at a server with a distant leader, takes one round trip to the leader.
func oneRoundTrip(t *testing.T, what string, lag func(time.Duration), work func() error) {
	t.Helper()
	timed := func() time.Duration {
		begin := time.Now()
		eventstest.Must(t, work())
		return time.Since(begin)
	}
	lag(0)
	timed() // makes what the first time has to make
	plain := timed()
	lag(far)
	took := timed()
	lag(0)
	if took < far || took >= 2*far+5*plain {
		t.Errorf("%s takes %v with the leader %v away, and %v with it near; want one round trip", what, took, far, plain)
	}
}

// TestAFollowerHasItsLeaderFarAway: a request that needs the leader takes one round trip more. A request that the follower answers alone
// takes no longer.
func TestAFollowerHasItsLeaderFarAway(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	parent := t.TempDir()
	f, err := StartFollower(t.Context(), parent, ensemble.Tick(2*time.Second))
	eventstest.Must(t, err)
	conn, _, err := zk.Connect([]string{f.Addr}, 30*time.Second, zk.WithLogInfo(false))
	eventstest.Must(t, err)
	n := 0
	oneRoundTrip(t, "a create", f.Lag, func() error {
		n++
		_, err := conn.Create(fmt.Sprint("/node", n), nil, 0, zk.WorldACL(zk.PermAll))
		return err
	})
	f.Lag(time.Hour)
	if _, _, err := conn.Children("/"); err != nil {
		t.Error(err)
	}
	f.Lag(0)
	conn.Close()
	eventstest.Must(t, f.Close())
	empty(t, parent)
}

func TestAFollowerOfEtcdHasItsLeaderFarAway(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	parent := t.TempDir()
	f, err := StartEtcdFollower(t.Context(), parent)
	if errors.Is(err, ErrNoEtcd) {
		t.Skip(err)
	}
	eventstest.Must(t, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{f.Addr}, Logger: zap.NewNop()})
	eventstest.Must(t, err)
	oneRoundTrip(t, "a put", f.Lag, func() error {
		_, err := client.Put(context.Background(), "key", "value")
		return err
	})
	f.Lag(time.Hour)
	if _, err := client.Get(context.Background(), "key", clientv3.WithSerializable()); err != nil {
		t.Error(err)
	}
	f.Lag(0)
	eventstest.Must(t, client.Close())
	eventstest.Must(t, f.Close())
	empty(t, parent)
}

func empty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("when it is closed it has left %v, %v; want an empty folder", left, err)
	}
}
