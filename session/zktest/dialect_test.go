package zktest_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A request that a server lacks costs its client the connection. With Keeper there is no answer, and the session is over as well.
func TestServersThatLackRequests(t *testing.T) {
	for name, test := range map[string]struct {
		setting zktest.Setting
		says    string
		stays   bool
	}{
		"ZooKeeper 3.4":     {zktest.ZooKeeper34(), "unknown error: -6", true},
		"ClickHouse Keeper": {zktest.ClickHouseKeeper(), zk.ErrConnectionClosed.Error(), false},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				srv := zktest.Start(t, test.setting)
				conn, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogger(eventstest.Quiet{}),
					zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
						return srv.DialContext(context.Background(), network, addr)
					}))
				eventstest.Must(t, err)
				defer func() {
					conn.Close()
					for range events {
					}
				}()
				node, err := conn.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				eventstest.Must(t, err)
				session := conn.SessionID()
				if _, err := conn.CreateContainer("/c", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err == nil || err.Error() != test.says {
					t.Errorf("a container: %v, want %s", err, test.says)
				}
				time.Sleep(2 * time.Second) // less than the session's timeout
				if there, _, err := conn.Exists(node); err != nil || there != test.stays || (conn.SessionID() == session) != test.stays {
					t.Errorf("the ephemeral node is there: %t, %v, and the session %x behind %x; want both as before: %t",
						there, err, conn.SessionID(), session, test.stays)
				}
				if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}, &zk.CreateRequest{Path: "/p", Acl: zk.WorldACL(zk.PermAll)}); err != nil {
					t.Errorf("a multi with a check: %v, want that to work", err)
				}
				if _, err := conn.Set("/none", nil, -1); !errors.Is(err, zk.ErrNoNode) {
					t.Errorf("writing a node that is not there: %v, want ErrNoNode", err)
				}
			})
		})
	}
}
