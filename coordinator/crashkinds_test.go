package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestCrashOfOneOfSeveral: who enters again does so for no request, and is told what the others were. It is a crash for all
// of them if it is one for one of them, in whatever order they end.
func TestCrashOfOneOfSeveral(t *testing.T) {
	for _, innerCrashes := range []bool{false, true} {
		for _, innerLast := range []bool{false, true} {
			for _, crashed := range []bool{false, true} {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					cs, ms := coordtest.Metered(t, srv, 2)
					l := detecting(cs[0], coordinator.Reentrant())
					if crashed {
						coordtest.Hold(t, detecting(cs[1]))
						expire(t, srv, cs[1])
						time.Sleep(time.Second)
					}
					outer, og := coordtest.Hold(t, l)
					before := ms[0].Read()
					entered, leave := make(chan events.Grant), make(chan struct{})
					go func() {
						defer func() { _ = recover() }()
						_ = l.Do(outer.Context(t.Context()), func(_ context.Context, g events.Grant) error {
							entered <- g
							<-leave
							if innerCrashes {
								panic("boom")
							}
							return nil
						})
					}()
					ig := <-entered
					if n := ms[0].Read().Minus(before); n.Requests != 0 {
						t.Errorf("%+v to enter again", n)
					}
					if ig.Abandoned != og.Abandoned || (og.Abandoned != nil) != crashed {
						t.Errorf("told %v and %v", og.Abandoned, ig.Abandoned)
					}
					untaken := queue2(l, outer)
					if innerLast {
						outer.Release()
						synctest.Wait()
						close(leave)
					} else {
						close(leave)
						synctest.Wait()
						outer.Release()
					}
					synctest.Wait()
					untaken.Release()
					<-untaken.Done()
					last, g := coordtest.Hold(t, detecting(cs[0], coordinator.Reentrant()))
					if (g.Abandoned != nil) != innerCrashes {
						t.Errorf("crashed %v, and told %+v", innerCrashes, g.Abandoned)
					}
					finish(t, last)
					leftInOrder(t, srv, detecting(cs[1]))
				})
			}
		}
	}
}

// queue2 enters again, and takes no Grant.
func queue2(l *coordinator.Lock, outer *coordinator.Acquisition) *coordinator.Acquisition {
	a := l.Acquire(outer.Context(context.Background()))
	synctest.Wait()
	return a
}

// TestReadersAreTold, and change nothing. A reader in the place of its own writer is not told of that one.
func TestReadersAreTold(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		mine, theirs := a.ReadWrite(lockPath, coordinator.DetectCrash()), b.ReadWrite(lockPath, coordinator.DetectCrash())
		readers := func(want string) {
			t.Helper()
			var all []*coordinator.Acquisition
			for _, l := range []*coordinator.Lock{mine.Read(), theirs.Read(), theirs.Read()} {
				r, g := coordtest.Hold(t, l)
				got := ""
				if g.Abandoned != nil {
					got = g.Abandoned.Node
				}
				if got != want {
					t.Errorf("a reader is told of %q, want %q", got, want)
				}
				all = append(all, r)
			}
			for _, r := range all {
				finish(t, r)
			}
		}
		readers("")
		if srv.Exists(recordPath) {
			t.Error("a reader made a record")
		}
		w, _ := coordtest.Hold(t, mine.Write())
		waiting := coordtest.Queue(theirs.Read())
		finish(t, w)
		if g := coordtest.Soon(t, waiting); g.Abandoned != nil {
			t.Errorf("told %+v", g.Abandoned)
		}
		finish(t, waiting)
		readers("")

		// It becomes a reader.
		w, _ = coordtest.Hold(t, mine.Write())
		r := mine.Read().Acquire(w.Context(t.Context()))
		if g := coordtest.Soon(t, r); g.Abandoned != nil {
			t.Errorf("in its own place it is told %+v", g.Abandoned)
		}
		finish(t, w)
		readers("")
		finish(t, r)
		readers("")

		// It becomes a reader, and crashes as a writer.
		w, grant := coordtest.Hold(t, mine.Write())
		r = mine.Read().Acquire(w.Context(t.Context()))
		coordtest.Soon(t, r)
		if err := srv.Delete(grant.Node); err != nil {
			t.Fatal(err)
		}
		<-w.Done()
		readers(grant.Node)
		finish(t, r)
		readers(grant.Node)

		// A crash is told to the next writer, and to a reader in that one's place, until the writer has released.
		w, second := coordtest.Hold(t, theirs.Write())
		if second.Abandoned == nil || second.Abandoned.Node != grant.Node {
			t.Errorf("the writer is told %+v", second.Abandoned)
		}
		r = theirs.Read().Acquire(w.Context(t.Context()))
		if g := coordtest.Soon(t, r); g.Abandoned == nil || g.Abandoned.Node != grant.Node {
			t.Errorf("the reader in its place is told %+v", g.Abandoned)
		}
		finish(t, w)
		readers("")
		finish(t, r)
	})
}

// TestCrashBelowChroots: each is told of the node by the name that it has below its own chroot.
func TestCrashBelowChroots(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		below := func(chroot string) *coordinator.Coordinator {
			c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		a, b := below("/some"), below("/some/deep")
		_, grant := coordtest.Hold(t, a.Mutex("/deep/lock", coordinator.DetectCrash()))
		expire(t, srv, a)
		time.Sleep(time.Second)
		next, got := coordtest.Hold(t, b.Mutex("/lock", coordinator.DetectCrash()))
		if got.Abandoned == nil || "/deep"+got.Abandoned.Node != grant.Node || !srv.Exists("/some/deep/lock"+session.RecordSuffix) {
			t.Errorf("%s is told as %+v", grant.Node, got.Abandoned)
		}
		finish(t, next)
		if acq := b.Mutex("/", coordinator.DetectCrash()).Acquire(t.Context()); !errors.Is(acq.Err(), coordinator.ErrPath) {
			t.Errorf("at the chroot: %v", acq.Err())
		}
	})
}

// TestCrashAsKazoo: the record stands beside a lock with kazoo's names as well.
func TestCrashAsKazoo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, detecting(a, coordinator.AsKazoo()), coordinator.WithData([]byte("a")))
		expire(t, srv, a)
		time.Sleep(time.Second)
		next, g := coordtest.Hold(t, detecting(b, coordinator.AsKazoo()))
		if g.Abandoned == nil || string(g.Abandoned.Data) != "a" {
			t.Errorf("told %+v", g.Abandoned)
		}
		finish(t, next)
		leftInOrder(t, srv, detecting(b, coordinator.AsKazoo()))
	})
}

// refused returns the end of an acquisition that was refused, and releases one that was not.
func refused(a *coordinator.Acquisition) error {
	synctest.Wait()
	defer a.Release()
	return a.Err()
}

// TestCrashBadInput: an error at once, and nothing is sent.
func TestCrashBadInput(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex("/locks/plain"))
		keeper, _ := coordtest.Hold(t, detecting(c))
		before := srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpMulti)
		for what, test := range map[string]struct {
			acq  *coordinator.Acquisition
			want error
		}{
			"the root":                {c.Mutex("/", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrPath},
			"unfair":                  {c.Unfair("/u", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"semaphore":               {c.Semaphore("/s", 2, coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"beside one without":      {c.Mutex("/locks/plain", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"without, beside one":     {c.Mutex(lockPath).Acquire(t.Context()), coordinator.ErrKind},
			"without, by the holder":  {c.Mutex(lockPath, coordinator.Reentrant()).Acquire(keeper.Context(t.Context())), coordinator.ErrKind},
			"too large for a record":  {c.Mutex("/"+strings.Repeat("p", session.MaxRequest/2-1000), coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrTooLarge},
			"data and path too large": {detecting(c).Acquire(t.Context(), coordinator.WithData(make([]byte, session.MaxRequest-1030-2*len(recordPath)+len(session.RecordSuffix)))), coordinator.ErrTooLarge},
		} {
			if err := refused(test.acq); !errors.Is(err, test.want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := c.Semaphore("/s", 2, coordinator.DetectCrash()).Resize(t.Context(), 3); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("Resize: %v", err)
		}
		synctest.Wait()
		if n := srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpMulti); n != before {
			t.Errorf("%d requests", n-before)
		}
		finish(t, holder)
		finish(t, keeper)
		// The most that is let through is what servers take, also when somebody is told of it.
		data := make([]byte, session.MaxRequest-3*len(recordPath)-1100)
		coordtest.Hold(t, detecting(c), coordinator.WithData(data))
		expire(t, srv, c)
		time.Sleep(time.Second)
		if _, g := coordtest.Hold(t, detecting(c)); g.Abandoned == nil || len(g.Abandoned.Data) != len(data) {
			t.Error("what a large holder left was not told")
		}
	})
}

// TestARecordThatIsNone: somebody's node is left alone. One of which only the beginning is understood is told as far as
// that goes.
func TestARecordThatIsNone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		if err := srv.Create(recordPath, []byte("somebody's")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := refused(detecting(c).Acquire(t.Context())); !errors.Is(err, coordinator.ErrRecord) || !strings.Contains(err.Error(), recordPath) {
				t.Errorf("%v", err)
			}
			reader := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.DetectCrash()).Read().Acquire(t.Context())
			if err := refused(reader); !errors.Is(err, coordinator.ErrRecord) {
				t.Errorf("reader: %v", err)
			}
		}
		if data, _ := srv.Data(recordPath); string(data) != "somebody's" || len(srv.Children(lockPath)) > 0 {
			t.Errorf("%q, %v", data, srv.Tree())
		}
		if err := srv.SetData(recordPath, []byte("zkgrant holder\nnode n\ntoken x\nof later times\nsince never")); err != nil {
			t.Fatal(err)
		}
		a, g := coordtest.Hold(t, detecting(c))
		if want := (events.Abandoned{Node: lockPath + "/n"}); g.Abandoned == nil || g.Abandoned.Node != want.Node || g.Abandoned.Token != 0 || g.Abandoned.Data != nil || !g.Abandoned.Since.IsZero() {
			t.Errorf("told %+v", g.Abandoned)
		}
		finish(t, a)
		leftInOrder(t, srv, detecting(c))
	})
}

// TestRecordPermissions: what may not be made, or read, keeps the lock from being held; what may not be removed stays, and
// Err says so, but the lock is free.
func TestRecordPermissions(t *testing.T) {
	for name, c := range map[string]struct {
		above  int32 // permissions in the node above the lock's
		record int32 // in a record that stands, if there is one
		held   bool
	}{
		"nothing may be made":  {above: zk.PermRead | zk.PermDelete},
		"may not be read":      {above: zk.PermAll, record: zk.PermWrite},
		"may not be removed":   {above: zk.PermRead | zk.PermCreate, held: true},
		"may be made and read": {above: zk.PermRead | zk.PermCreate | zk.PermDelete, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				conn := coordtest.Admin(t, srv.Addr(), srv.DialContext)
				for _, n := range []struct {
					path  string
					perms int32
				}{{"/locks", zk.PermAll}, {lockPath, zk.PermAll}} {
					if _, err := conn.Create(n.path, nil, zk.FlagPersistent, zk.WorldACL(n.perms)); err != nil {
						t.Fatal(err)
					}
				}
				if c.record != 0 {
					if _, err := conn.Create(recordPath, []byte("zkgrant holder\nnode n\n\n"), zk.FlagPersistent, zk.WorldACL(c.record)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := conn.SetACL("/locks", zk.WorldACL(c.above), -1); err != nil {
					t.Fatal(err)
				}
				a := detecting(coordtest.Connect(t, srv)).Acquire(t.Context())
				g, err := a.Wait(t.Context())
				if (err == nil) != c.held || err != nil && !errors.Is(err, coordinator.ErrNoAuth) {
					t.Fatalf("%+v, %v", g, err)
				}
				a.Release()
				<-a.Done()
				synctest.Wait()
				stays := c.held && c.above&zk.PermDelete == 0
				if err := a.Err(); c.held && errors.Is(err, coordinator.ErrNoAuth) != stays || c.held && !stays && err != nil {
					t.Errorf("released: %v", err)
				}
				if len(srv.Children(lockPath)) > 0 || srv.Exists(recordPath) != (stays || c.record != 0) {
					t.Errorf("left: %v", srv.Tree())
				}
			})
		})
	}
}

// TestAWriterThatReleasesWhileItsReaderLooks: 1. The reader in its place reads the record; 2. the writer releases, and its node and the
// record are gone; 3. the reader sees that the node is not there. The writer has not crashed.
func TestAWriterThatReleasesWhileItsReaderLooks(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.DetectCrash())
		w, _ := coordtest.Hold(t, rw.Write())
		looked := false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op != zktest.OpGetData || r.Path != recordPath || looked {
				return zktest.Pass()
			}
			looked = true
			w.Release()
			return zktest.Delay(10 * time.Millisecond)
		})
		a := rw.Read().Acquire(context.WithoutCancel(w.Context(t.Context())))
		if g := coordtest.Soon(t, a); g.Abandoned != nil || !looked {
			t.Errorf("looked %v, told %+v", looked, g.Abandoned)
		}
		finish(t, a)
		leftInOrder(t, srv, rw.Write())
	})
}
