package coordinator_test

import (
	"path"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAsKazoo: the names are kazoo's, and so is the life of the directory; all else is as ever.
func TestAsKazoo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for form, locks := range map[string][2]*coordinator.Lock{
			`[0-9a-f]{32}__lock__\d{10}()$`: {a.Mutex("/as/kazoo/mutex", coordinator.AsKazoo()), b.Mutex("/as/kazoo/mutex", coordinator.AsKazoo())},
			`[0-9a-f]{32}__lock__\d{10}$`:   {a.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write(), b.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write()},
			`[0-9a-f]{32}__rlock__\d{10}$`:  {a.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Read(), b.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Write()},
		} {
			first, grant := coordtest.Hold(t, locks[0])
			second := coordtest.Queue(locks[1])
			if name := path.Base(grant.Node); !regexp.MustCompile("^" + form).MatchString(name) {
				t.Errorf("the name is %s, want %s", name, form)
			}
			if second.Valid() {
				t.Errorf("%s: the second holds beside the first", form)
			}
			if data, ok := srv.Data(grant.Node); !ok || data == nil {
				t.Errorf("%s has no data, and kazoo does not show it then", grant.Node)
			}
			first.Release()
			if g := coordtest.Soon(t, second); g.Token <= grant.Token {
				t.Errorf("%s: the token %d is granted behind %d, want a greater one", form, g.Token, grant.Token)
			}
			coordtest.End(second)
			synctest.Wait()
			if srv.Reap(); !srv.Exists(locks[0].Path()) {
				t.Errorf("%s was removed when it was empty", locks[0].Path())
			}
		}
	})
}
