package coordinator_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestATurnoverOfLocksInSeveralDirectories, of multi-locks, or of a multi-lock and a
// mutex, meets each fault. The next acquisition is granted its lock, and no node is left.
func TestATurnoverOfLocksInSeveralDirectories(t *testing.T) {
	faults := mishaps()
	faults["no fault"] = func(*zktest.Server, int64) zktest.Action { return zktest.Pass() }
	faults["a node deleted by hand"] = func(srv *zktest.Server, _ int64) zktest.Action {
		for _, node := range srv.Children("/locks/b") {
			_ = srv.Delete(path.Join("/locks/b", node)) // a lock at other paths has no node there
		}
		return zktest.Pass()
	}
	faults["another contender"] = func(srv *zktest.Server, _ int64) zktest.Action {
		const other = "/locks/a/lock-0000000000"
		_ = srv.Create(other, nil) // the turnover finds this node
		time.AfterFunc(5*time.Second, func() { _ = srv.Delete(other) })
		return zktest.Pass()
	}
	for _, pair := range [][2]string{{"ab", "ab"}, {"ab", "a"}, {"a", "ab"}, {"ab", "ac"}, {"abc", "ba"}} {
		for fault, strikes := range faults {
			coordtest.Case(t, fmt.Sprintf("%s and %s, %s", pair[0], pair[1], fault), func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				at := func(dirs string) handle {
					if len(dirs) == 1 {
						return c.Mutex("/locks/" + dirs)
					}
					var paths []string
					for _, dir := range dirs {
						paths = append(paths, "/locks/"+string(dir))
					}
					return mutexes(c, paths...)
				}
				for range 2 { // so that the session knows the directories
					holdAgainAndAgain(t, at("abc"), 1)
				}
				holder, _ := coordtest.HoldReal(t, at(pair[0]))
				strikeNth(srv, 1, strikes, isA(zktest.OpMulti))
				holder.Release()
				next, _ := coordtest.HoldReal(t, at(pair[1]))
				<-holder.Done()
				wantOneNodeIn := func(dirs string) {
					t.Helper()
					for _, dir := range []string{"a", "b", "c"} {
						nodes := srv.Children("/locks/" + dir)
						expect(t, len(nodes) == strings.Count(dirs, dir), "%s has %v, want one in each of %q", dir, nodes, dirs)
					}
				}
				wantOneNodeIn(pair[1])
				coordtest.End(next)
				wantOneNodeIn("")
			})
		}
	}
}
