package coordinator_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// What callers of each kind of lock see of each other, and what becomes of a lock when something breaks, is told in testdata/scenes.

func TestAcquireScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/acquire") }
func TestLossScenes(t *testing.T)      { coordtest.Scenes(t, "testdata/scenes/loss") }
func TestCloseScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/close") }
func TestReentryScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/reentry") }
func TestCrashScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/crash") }
func TestRevokeScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/revoke") }
func TestSemaphoreScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/semaphore.txt") }
func TestReadWriteScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/readwrite.txt") }
func TestMultiScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/multi.txt") }
func TestUnfairScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/unfair") }
func TestElectionScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/election.txt") }
func TestObserverScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/observe.txt") }
func TestKazooScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/kazoo.txt") }

// TestRealScenes plays the same on a real server, as far as it can be had to do such things.
func TestRealScenes(t *testing.T) {
	eventstest.NeedsServers(t)
	coordtest.RealScenes(t, ensemble.Start(t, 1), "testdata/scenes")
}

// eachKind are the kinds of lock that exclude each other, as the scenes name them.
var eachKind = []string{
	"mutex", "mutex kazoo", "write", "write kazoo", "election", "unfair", "sem:3 permits=2", "multi /accounts/a /accounts/b:w /accounts/c",
}

// TestEachKindKeepsItsPromises: what every kind of lock promises, whatever it is.
func TestEachKindKeepsItsPromises(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/kinds") }

// TestNoNodeIsLeftWhateverRequestOfAnyKindIsLost: each request of a scene is lost once, and its reply once. All is as if nothing had
// happened: one holds behind the other with a greater token, and no node is left.
func TestNoNodeIsLeftWhateverRequestOfAnyKindIsLost(t *testing.T) {
	for _, kind := range eachKind {
		want, requests := handedOver(t, kind, 0, zktest.Pass()) // what is left out by -run is not needed for the rest
		for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
			every := int64(eventstest.Amount(2, 1))
			for nth := every; nth <= requests; nth += every {
				t.Run(fmt.Sprintf("%s, %s %d", kind, name, nth), func(t *testing.T) {
					got, seen := handedOver(t, kind, nth, action)
					if got != want {
						t.Errorf("got\n%swant\n%s", got, want)
					}
					// Two listings are one or two, as they come. So the last few requests do not come each time.
					if seen < nth && nth <= requests*9/10 {
						t.Errorf("only %d requests came, want %d at least as in a scene where nothing is lost", seen, nth)
					}
				})
			}
		}
	}
}

// handedOver plays a handoff between two callers, in which the action befalls the nth request. It returns what was told, and how many
// requests came.
func handedOver(t *testing.T, kind string, nth int64, action zktest.Action) (told string, requests int64) {
	t.Helper()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var count atomic.Int64
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op != zktest.OpPing && r.Op != zktest.OpConnect && count.Add(1) == nth {
				return action
			}
			return zktest.Pass()
		})
		told = coordtest.Scene(t, srv, "acquire first a "+kind+" ; wait 3s", "acquire second a "+kind, "wait 3s",
			"release first ; wait 5s", "release second ; wait 3s")
		requests = count.Load()
	})
	return told, requests
}

// brokenScene is set in the process that plays a scene which cannot go well.
const brokenScene = "ZKGRANT_TEST_BROKEN_SCENE"

// TestBrokenScenesSayWhatIsWrong: a scene that hangs or has a mistake in it ends, and names the step and what is wrong with it.
func TestBrokenScenesSayWhatIsWrong(t *testing.T) {
	if scene := os.Getenv(brokenScene); scene != "" {
		coordtest.Scenes(t, scene)
		return
	}
	for lines, wants := range map[string][]string{
		"resize s1 4 sem:3\ndown\nresize s1 5 sem:4": {"is not over after", "scene:1: resize s1 5 sem:4", "coordtest/steps.go:"},
		"acquire A":                                 {`"acquire" has 1 words behind it, want 2 at least`},
		"cancel C":                                  {`no context is named "C"`},
		"acquire A s1 unfair ; finish A":            {"A is no function"},
		"do A s1 ; finish A ; finish A":             {"the function of A has ended already"},
		"acquire A s1 ; do B s1 ; finish B":         {"the function of B has not begun"},
		"resume pass":                               {"no step `hold`"},
		"connect s1 ; hold s1 create ; resume pass": {"no request is held"},
		"connect s1 ; next s1 creat pass":           {`no operation "creat"`},
		"next s1 create pass":                       {`no session is named "s1" yet`},
		"connect s1 ; next s1 create pass":          {`a fault was arranged for "create" of "s1", and no such request came`},
		"connect s1 ; always s1 any pass ; pass":    {`a fault was arranged for "any" of "s1", and no such request came`},
		"connect s1 ; next s1 any fail=throtled":    {`no failure "throtled"`},
	} {
		scene := filepath.Join(t.TempDir(), "scene")
		eventstest.Must(t, os.WriteFile(scene, []byte("scene nocost\n"+lines+"\n----\n"), 0o600))
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), brokenScene+"="+scene)
		out, err := command.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Errorf("%q ended with %v:\n%s", lines, err, out)
		}
		for _, want := range wants {
			if got := string(out); !strings.Contains(got, want) {
				t.Errorf("%q: got\n%.3000s\nwant a line with %q", lines, got, want)
			}
		}
	}
}

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
