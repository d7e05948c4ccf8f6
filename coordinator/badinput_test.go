package coordinator_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What is wrong is said at once, by name, and nothing is sent.

func TestConnectNamesTheMalformedPartOfTheServers(t *testing.T) {
	never := coordinator.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("somebody dialled")
	})
	for _, tt := range []struct{ servers, names string }{
		{"", "no host"},
		{" \t ", "no host"},
		{"/app", `no host in "/app"`},
		{",", "host 1"},
		{"zk1:2181,", "host 2"},
		{"zk1:2181,,zk3:2181", "host 2"},
		{"zk1,zk2:", `host 2 "zk2:"`},
		{":2181", "empty host name"},
		{"zk1:port", `"port"`},
		{"zk1:0", `"0"`},
		{"zk1:65536", `"65536"`},
		{"zk1:-2181", `"-2181"`},
		{"zk1: 2181", `" 2181"`},
		{"zk 1:2181", `' '`},
		{"zk1;zk2", `';'`},
		{"::1:2181", "brackets"},
		{"[::1:2181", "not closed"},
		{"[zk1]:2181", `"zk1"`},
		{"zk1:2181/app/", `"/app/"`},
		{"zk1:2181//app", `"//app"`},
		{"zk1:2181/app/../other", `".."`},
		{"zk1:2181/app,zk2:2181", "behind the last host"},
		{"zk1:2181/a\x00", "U+0000"},
		{"http://zk1:2181", `"//zk1:2181"`},
	} {
		_, err := coordinator.Connect(t.Context(), tt.servers, never)
		if !errors.Is(err, coordinator.ErrConnectString) || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Connect(%q) = %v, want it to name %q", tt.servers, err, tt.names)
		}
	}
}

// What looks odd and is right is dialled, each server of it.
func TestConnectStringsThatLookOddAndAreRight(t *testing.T) {
	for _, tt := range []struct {
		servers string
		dialled []string
	}{
		{"zk1", []string{"zk1:2181"}},
		{" zk1:2182 , zk2 /app", []string{"zk1:2182", "zk2:2181"}},
		{"[::1]:2182/app", []string{"[::1]:2182"}},
		{"[fe80::1%eth0],zk_1.", []string{"[fe80::1%eth0]:2181", "zk_1.:2181"}},
		{"zk1/", []string{"zk1:2181"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		dialled := make(chan string, 100)
		dial := func(_ context.Context, _, addr string) (net.Conn, error) {
			select {
			case dialled <- addr:
			default:
			}
			return nil, errors.New("nobody there")
		}
		failed := make(chan error)
		go func() {
			_, err := coordinator.Connect(ctx, tt.servers, coordinator.WithDialer(dial))
			failed <- err
		}()
		got := []string{}
		for range tt.dialled {
			got = append(got, <-dialled)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("Connect(%q) = %v", tt.servers, err)
		}
		slices.Sort(got)
		slices.Sort(tt.dialled)
		if !slices.Equal(got, tt.dialled) {
			t.Errorf("Connect(%q) dialled %v, want %v", tt.servers, got, tt.dialled)
		}
	}
}

func TestConnectToUnreachableServersEndsWithItsContextAndTheLastError(t *testing.T) {
	const patience = 20 * time.Second
	for name, tt := range map[string]struct {
		dial func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error)
		says string
	}{
		"refused": {
			func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				srv.Down(true)
				return srv.DialContext
			}, "refused",
		},
		"accepts and says nothing": {
			func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				srv.MuteAll(true)
				return srv.DialContext
			}, "handshake timed out",
		},
		"hangs up": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					_ = far.Close()
					return near, nil
				}
			}, "closed",
		},
		"no such name": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.DNSError{Err: "no such host", Name: "zk.example.com", IsNotFound: true}
				}
			}, "no such host",
		},
		"packets vanish": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
				}
			}, "i/o timeout",
		},
		"speaks something else": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					// The client hangs up in the middle of either.
					go func() { _, _ = io.Copy(io.Discard, far) }()
					go func() { _, _ = far.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }()
					return near, nil
				}
			}, "frame length",
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				var dials atomic.Int32
				dial := tt.dial(srv)
				counted := coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.Add(1)
					return dial(ctx, network, addr)
				})
				enough := errors.New("enough")
				ctx, cancel := context.WithTimeoutCause(t.Context(), patience, enough)
				defer cancel()
				start := time.Now()
				_, err := coordinator.Connect(ctx, "zk.example.com:2181", counted)
				took := time.Since(start)
				if !errors.Is(err, enough) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "zk.example.com:2181") {
					t.Errorf("Connect = %v", err)
				}
				if took < patience || took > patience+time.Second {
					t.Errorf("Connect took %v, its context %v", took, patience)
				}
				if n := dials.Load(); n < 2 || n > 60 { // at least half a second between them, once they keep failing
					t.Errorf("%d dials in %v", n, took)
				}
			})
		})
	}
}

func TestConnectWithAnEndedContext(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		srv.MuteAll(true)
		if _, err := coordinator.Connect(ctx, srv.Addr(), srv.Option()); !errors.Is(err, context.Canceled) {
			t.Errorf("Connect = %v", err)
		}
	})
}

func TestBadLockPathsEndInErrPathAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for _, path := range []string{
			"", "a", "a/b", " /a", "//", "/a/", "/a//b", "/a/../b", "/..", "/./a", "/a\x00", "/\x00", "/a\x1f", "/a\xff", "/\U0001F512",
			"/zookeeper", "/zookeeper/x", "/zookeeper/quota/locks",
			"/" + strings.Repeat("a", 1<<20), strings.Repeat("/a", 1<<19), strings.Repeat("x", 1<<20),
		} {
			for name, ask := range map[string]func(*coordinator.Lock) error{
				"Acquire": func(l *coordinator.Lock) error {
					a := l.Acquire(t.Context())
					if !coordtest.IsClosed(a.Done()) {
						t.Errorf("%.20q: not over when Acquire returned", path)
					}
					return a.Err()
				},
				"Try": func(l *coordinator.Lock) error {
					_, err := l.Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
					return err
				},
				"Do": func(l *coordinator.Lock) error {
					return l.Do(t.Context(), func(context.Context, events.Grant) error { return nil })
				},
			} {
				err := ask(c.Mutex(path))
				if !errors.Is(err, coordinator.ErrPath) {
					t.Errorf("%s of %.20q: %v", name, path, err)
				} else if len(err.Error()) > 200 {
					t.Errorf("%s of %.20q: the error has %d bytes", name, path, len(err.Error()))
				}
				if len(path) >= 1<<20 && !errors.Is(err, coordinator.ErrTooLarge) {
					t.Errorf("%s of %d bytes: %v", name, len(path), err)
				}
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// The servers' own tree is meant where it is, and not what an application calls so.
func TestTheServersTreeIsRefusedWhereverTheChrootIs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		dial := func(chroot string) *coordinator.Coordinator {
			c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
		coordtest.Hold(t, dial("/app").Mutex("/zookeeper/x"))
		if got := srv.Children("/app/zookeeper/x"); len(got) != 1 {
			t.Errorf("tree: %v", srv.Tree())
		}
		coordtest.Hold(t, dial("").Mutex("/zookeepers"))
		for _, path := range []string{"/x", "/"} {
			a := dial("/zookeeper").Mutex(path).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("%s below /zookeeper: %v", path, a.Err())
			}
		}
	})
}

// What is refused for its size is refused here, and what is not is accepted by the
// server. A server hangs up on a request that is too long, which would look like an
// outage, and the request would be made again for ever.
func TestSizeLimit(t *testing.T) {
	const limit = 0xfffff - 1<<10 // for the path, the data and the access control list
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		hugeACL := slices.Repeat([]zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: strings.Repeat("x", 100) + ":y"}}, 10_000)
		for name, a := range map[string]*coordinator.Acquisition{
			"data": c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithData(make([]byte, limit))),
			"acl":  c.Mutex(lockPath, coordinator.WithACL(hugeACL)).Acquire(t.Context()),
		} {
			if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrTooLarge) || errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("%s: over %v, Err = %v", name, coordtest.IsClosed(a.Done()), a.Err())
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}

		world := zk.WorldACL(zk.PermAll)
		fits := limit - len(lockPath) - 12 - len(world[0].Scheme) - len(world[0].ID)
		a, grant := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithData(make([]byte, fits)))
		if got, _ := srv.Data(grant.Node); len(got) != fits {
			t.Errorf("the node has %d bytes of %d", len(got), fits)
		}
		a.Release()
		long := "/" + strings.Repeat("a", fits-1+len(lockPath))
		if _, grant := coordtest.Hold(t, c.Mutex(long)); !strings.HasPrefix(grant.Node, long) {
			t.Error("the longest path was not used")
		}
		if n := srv.Requests(zktest.OpConnect); n != 1 {
			t.Errorf("%d handshakes: the server hung up", n)
		}
	})
}

// A quota is the server's word, and final.
func TestQuota(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex(lockPath))
		refused := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !coordtest.Creates(r) {
				return zktest.Pass()
			}
			if refused++; refused > storm {
				return zktest.Swallow()
			}
			return zktest.Fail(zktest.QuotaExceeded)
		})
		start := time.Now()
		a := c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Minute))
		if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrQuota) || time.Since(start) != 0 {
			t.Errorf("Err = %v after %v", a.Err(), time.Since(start))
		}
		time.Sleep(time.Hour)
		if refused != 1 || len(srv.Children(lockPath)) != 1 {
			t.Errorf("%d creates, children %v", refused, srv.Children(lockPath))
		}
	})
}
