package coordinator_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const turnedAwayMessage = session.TurnedAway

// TestRequestsThatAreTurnedAwayAreSaid: a caller whose wait ends hears of its own end alone, so the log has the cause.
// It is there after some seconds, and again each minute. A server that fails at requests is asked as seldom as one
// that throttles them.
func TestRequestsThatAreTurnedAwayAreSaid(t *testing.T) {
	for code, cause := range map[zktest.Code]string{zktest.Throttled: "throttled by the server", zktest.MarshallingError: "its log has the reason"} {
		t.Run(code.Error(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(zap.InfoLevel)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				var asked atomic.Int64
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op == zktest.OpPing || r.Op == zktest.OpClose {
						return zktest.Pass()
					}
					asked.Add(1)
					return zktest.Fail(code)
				})
				said := func(want int, when string) {
					t.Helper()
					lines := logs.FilterMessage(turnedAwayMessage).All()
					if len(lines) != want {
						t.Fatalf("%s %d lines of the log say it, want %d", when, len(lines), want)
					}
					for _, line := range lines {
						if text, _ := line.ContextMap()["error"].(string); line.Level != zap.WarnLevel || !strings.Contains(text, cause) {
							t.Errorf("the log has %v %v, want a warning with %q", line.Level, line.ContextMap(), cause)
						}
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				defer cancel()
				a := c.Mutex(lockPath).Acquire(ctx)
				time.Sleep(2 * time.Second)
				said(0, "after 2 s")
				time.Sleep(8 * time.Second)
				said(1, "after 10 s")
				before := asked.Load()
				time.Sleep(time.Minute)
				said(2, "a minute later")
				if n := asked.Load() - before; n > 60 {
					t.Errorf("%d requests in a minute, want one for each pause of about 2 s", n)
				}
				<-ctx.Done()
				said(3, "in the end")
				srv.Intercept(nil)
				<-a.Done()
				coordtest.Hold(t, c.Mutex(lockPath))
			})
		})
	}
}

// TestConnectionsThatEndAtOnceAreExplained: a server with too many of them may reset a dial, and one of another
// ensemble closes the connection instead of refusing the identity.
func TestConnectionsThatEndAtOnceAreExplained(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpAuth {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		reset := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EPIPE)}
		}
		for _, c := range []struct {
			option coordinator.Option
			says   string
		}{
			{coordinator.WithDialer(reset), "maxCnxns"},
			{coordinator.WithAuth("ensemble", []byte("there")), "the server is of another ensemble"},
			{coordinator.WithAuth("digest", []byte("u:p")), `identity of scheme "digest": the server, or something on the way to it, closed the connection`},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := coordinator.Connect(ctx, srv.Addr(), srv.Option(), c.option)
			if cancel(); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "another ensemble") != strings.Contains(c.says, "another ensemble") {
				t.Errorf("no session: %v, want %q", err, c.says)
			}
		}
	})
}
