package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
)

// TestAContenderThatDoesNotWaitIsSeen sends a contender that does not wait into a queue. The referee reports it inside beside others and
// ahead of them, as it would report a library that does so. About a contender that waits it reports nothing. The test needs only Go, and
// tests players, witness and referee.
func TestAContenderThatDoesNotWaitIsSeen(t *testing.T) {
	t.Parallel()
	for _, other := range []team{
		{family: zkgrant, forms: times(4, formMutex)},
		{family: zkgrant, forms: times(2, formRead, formWrite)},
		{family: stock, forms: times(4, formLock)},
	} {
		for _, guest := range []team{
			{family: stock, forms: times(1, formLock)}, {family: reckless, forms: times(1, formMutex)},
		} {
			name := fmt.Sprintf("%s, beside %s %s", guest.family, other.family, other.forms[0])
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := enterModel(t).play(t, workload{name: name, tier: quick, teams: []team{other, guest}, uneven: true})
				if guest.family != reckless {
					g.report(t)
					return
				}
				if r := g.referee; len(r.violations) == 0 || len(r.inversions) == 0 {
					t.Errorf("%d sections %v, %d violations, %d inversions",
						r.sections(), r.entries, len(r.violations), len(r.inversions))
				}
			})
		}
	}
}

// openReckless connects a session for a contender that stands in the queue but does not wait.
func openReckless(addr string, timeout time.Duration) func(context.Context, form, string) (goLock, error) {
	return func(ctx context.Context, _ form, path string) (goLock, error) {
		conn, err := connectStock(ctx, addr, timeout)
		if err != nil {
			return nil, err
		}
		return &recklessLock{conn: conn, prefix: path + "/lock-"}, nil
	}
}

// recklessLock is a lock that never waits.
type recklessLock struct {
	conn         *zk.Conn
	prefix, node string
}

func (l *recklessLock) session() int64 { return l.conn.SessionID() }

func (l *recklessLock) acquire(context.Context, time.Duration) (entered bool, err error) {
	l.node, err = l.conn.CreateProtectedEphemeralSequential(l.prefix, nil, zk.WorldACL(zk.PermAll))
	return err == nil, err
}

func (*recklessLock) lost() <-chan events.Lost { return nil }

func (l *recklessLock) release() error { return l.conn.Delete(l.node, -1) }

func (l *recklessLock) close() error {
	l.conn.Close()
	return nil
}
