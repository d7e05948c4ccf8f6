package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestAFreshPathWhateverHappensToItsRequests: each of the three requests for a lock at a
// fresh path meets each fault. The lock is granted once and has one node, and none is left
// after the release, after a release before the Grant, and after Close.
func TestAFreshPathWhateverHappensToItsRequests(t *testing.T) {
	const fresh = "/locks/fresh"
	faults := map[string]func(srv *zktest.Server, q zktest.Request) zktest.Action{
		"not executed": func(*zktest.Server, zktest.Request) zktest.Action { return zktest.CutBefore() },
		"not answered": func(*zktest.Server, zktest.Request) zktest.Action { return zktest.CutAfter() },
		"no word":      func(*zktest.Server, zktest.Request) zktest.Action { return zktest.Swallow() },
		"throttled":    func(*zktest.Server, zktest.Request) zktest.Action { return zktest.Fail(zktest.Throttled) },
		"expired": func(srv *zktest.Server, q zktest.Request) zktest.Action {
			_ = srv.Expire(q.Session) // a resumed one may be over
			return zktest.Pass()
		},
		"all deleted by hand": func(srv *zktest.Server, _ zktest.Request) zktest.Action {
			for _, node := range srv.Children(fresh) {
				_ = srv.Delete(path.Join(fresh, node)) // each may have gone by itself
			}
			_ = srv.Delete(fresh)
			return zktest.Pass()
		},
	}
	ends := map[string]func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator, a *coordinator.Acquisition){
		"held": func(t *testing.T, srv *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			coordtest.GrantOf(t, a)
			time.Sleep(time.Minute)
			if nodes := srv.Children(fresh); a.Valid() != (len(nodes) == 1) {
				t.Errorf("valid %v, and its nodes are %v; want one while it is", a.Valid(), nodes)
			}
			coordtest.End(a)
		},
		"released before": func(_ *testing.T, _ *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			coordtest.End(a)
		},
		"closed": func(_ *testing.T, _ *zktest.Server, c *coordinator.Coordinator, _ *coordinator.Acquisition) {
			_ = c.Close() // it says so if the servers do not answer
		},
	}
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate, zktest.OpGetData} {
		for fault, strikes := range faults {
			for end, play := range ends {
				coordtest.Case(t, fmt.Sprintf("%v %s, %s", op, fault, end), func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session asks for all at once
					struck := false
					srv.Intercept(func(q zktest.Request) zktest.Action {
						if struck || q.Op != op || !strings.HasPrefix(q.Path, fresh) {
							return zktest.Pass()
						}
						struck = true
						return strikes(srv, q)
					})
					play(t, srv, c, c.Mutex(fresh).Acquire(context.Background()))
					time.Sleep(time.Minute)
					synctest.Wait()
					if nodes := srv.Children(fresh); len(nodes) > 0 {
						t.Errorf("left are %v, want none", nodes)
					}
				})
			}
		}
	}
}

// TestAWithdrawnFreshNodeGoesAtOnce: the node of an acquisition that is withdrawn is
// deleted as soon as the session knows that it stands, though other answers to the three
// requests do not come. Else the next acquisition would make a second one beside it.
func TestAWithdrawnFreshNodeGoesAtOnce(t *testing.T) {
	const fresh = "/locks/fresh"
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpGetData} {
		for _, early := range []bool{true, false} {
			coordtest.Case(t, fmt.Sprintf("%v is not answered, withdrawn early %v", op, early), func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, 1)
				c := cs[0]
				holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session asks for all at once
				ms[0].Lag(faultnet.Up, time.Second)
				srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op == op && strings.HasPrefix(q.Path, fresh) {
						return zktest.Swallow()
					}
					return zktest.Pass()
				})
				a := c.Mutex(fresh).Acquire(context.Background())
				if synctest.Wait(); !early {
					time.Sleep(1500 * time.Millisecond) // the node stands, and its session knows
				}
				a.Release()
				time.Sleep(2500 * time.Millisecond) // two ways to the server, and some
				if nodes := srv.Children(fresh); len(nodes) > 0 {
					t.Errorf("left are %v, want none", nodes)
				}
				select {
				case <-a.Done():
				default:
					t.Error("not done, though its node is gone")
				}
			})
		}
	}
}

// TestATurnoverOfLocksInSeveralDirectories, of multi-locks, or of a multi-lock and a
// mutex, meets each fault. The next one is granted its lock, and no node is left.
func TestATurnoverOfLocksInSeveralDirectories(t *testing.T) {
	faults := map[string]func(srv *zktest.Server) zktest.Action{
		"no fault":     func(*zktest.Server) zktest.Action { return zktest.Pass() },
		"not executed": func(*zktest.Server) zktest.Action { return zktest.CutBefore() },
		"not answered": func(*zktest.Server) zktest.Action { return zktest.CutAfter() },
		"throttled":    func(*zktest.Server) zktest.Action { return zktest.Fail(zktest.Throttled) },
		"a node deleted by hand": func(srv *zktest.Server) zktest.Action {
			for _, node := range srv.Children("/locks/b") {
				_ = srv.Delete(path.Join("/locks/b", node)) // a lock elsewhere has none
			}
			return zktest.Pass()
		},
		"another contender": func(srv *zktest.Server) zktest.Action {
			const other = "/locks/a/lock-0000000000"
			_ = srv.Create(other, nil) // the turnover finds it
			time.AfterFunc(5*time.Second, func() { _ = srv.Delete(other) })
			return zktest.Pass()
		},
	}
	for _, pair := range [][2]string{{"ab", "ab"}, {"ab", "a"}, {"a", "ab"}, {"ab", "ac"}, {"abc", "ba"}} {
		for fault, strikes := range faults {
			coordtest.Case(t, fmt.Sprintf("%s and %s, %s", pair[0], pair[1], fault), func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				at := func(dirs string) handle {
					var all []*coordinator.Lock
					for _, dir := range dirs {
						all = append(all, c.Mutex("/locks/"+string(dir)))
					}
					if len(all) == 1 {
						return all[0]
					}
					return c.Multi(all...)
				}
				for range 2 { // so that the session knows the directories
					holdAgainAndAgain(t, at("abc"), 1)
				}
				holder := at(pair[0]).Acquire(context.Background())
				coordtest.GrantOf(t, holder)
				struck := false
				srv.Intercept(func(q zktest.Request) zktest.Action {
					if struck || q.Op != zktest.OpMulti {
						return zktest.Pass()
					}
					struck = true
					return strikes(srv)
				})
				holder.Release()
				next := at(pair[1]).Acquire(context.Background())
				coordtest.GrantOf(t, next)
				<-holder.Done()
				for _, dir := range "abc" {
					want := strings.Count(pair[1], string(dir))
					if nodes := srv.Children("/locks/" + string(dir)); len(nodes) != want {
						t.Errorf("%c has %v, want %d", dir, nodes, want)
					}
				}
				coordtest.End(next)
				for _, dir := range "abc" {
					if nodes := srv.Children("/locks/" + string(dir)); len(nodes) > 0 {
						t.Errorf("%c has %v, want none", dir, nodes)
					}
				}
			})
		}
	}
}
