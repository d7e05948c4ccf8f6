package coordtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Scenes plays a file of scenes, or each file of a folder, in virtual time on the
// in-process server. In a scene, callers with their own sessions acquire and release
// locks, and faults strike. Below each block of lines is its result. After a change of
// behaviour, run the test with -rewrite and read the diff.
//
// A file with a line "# for $x: a b" is played once with a in place of $x, and its scenes
// with $x once more with b, with the same result (a_b means two words).
//
// A scene begins with its head, which selects what is printed:
//
//	scene                    a new server, sessions and callers. Result of a block:
//	                         what each caller received, with the time since the block
//	                         began from 100 ms on; holders and waiters; the nodes; the
//	                         requests of the sessions
//	  nocost                 requests are not printed
//	  vague                  nor are times, nor the number of restored watches, which are
//	                         random if a connection is made again
//	  ownerless              nor is the owner of a node
//	  exclusive              a grant BESIDE a holder is printed: unavoidable if a server
//	                         ends a session or deletes a node
//	  brief                  each line has its result beside it: holders, waiters, and
//	                         other reports. A caller's name is the data of its nodes, and
//	                         the streams of all sessions are read
//	  leases                 a brief scene prints how many permits are taken
//	  real                   a brief scene that is also played on a real server
//
// A line is one step or several. Before the step after a semicolon, everything settles
// (in virtual time); the step after an ampersand follows at once. Acquisitions and
// functions are callers (A). Sessions (s1) connect when they are first named:
//
//	connect s1               with options: loss-on-suspend; stream: print its stream
//	acquire A s1 LOCK        acquires a lock: mutex (the default), read, write, unfair,
//	                         election, sem:N, multi /a /b:r /c:w
//	                           at=PATH reentrant detect revocable kazoo adopt
//	                           try max=1m within=1m data=text permits=2
//	                           in=B: with B's context (detached: that outlives B);
//	                           ctx=C: with the context that `cancel C` ends
//	                           untaken: the Grant is not read
//	do A s1 LOCK             the same with a function under the lock, which runs until
//	                         `finish`; obeys=2s: it returns that long after the end of
//	                         its context
//	finish A                 the function returns (err: with an error; panic: panics; exit:
//	                         its goroutine ends)
//	release A B
//	leave A B                releases one by one, and reports if one of them had lost the
//	                         lock before, or another caller was granted it
//	observe O s1 at=PATH     an observer of an election (slow: it reads only on `read O`)
//	setdata A text, resize s1 N LOCK, txn A /path
//	revoke R s1 LOCK grace=3s  requests a lock from its holder
//	queue s1 LOCK            prints the queue; readwrite: through both sides of the lock
//	warm s1 s2               both learn that the directory is ours
//	close s1, wait 5s
//	expire, cut s1; mute, lag, unmute, unlag s1; down, up
//	delete A (or a node, or a path; A 1: the second of its nodes), set A text,
//	create /path, data A, sequence /path N, reap, tree, watches
//	next s1 create ACTION    the fate of the next such request: cut-before, cut-after,
//	                         swallow, delay=2s, fail=throttled, delete=A (right before it);
//	                         always: of every such request; s1 or any; an operation or any;
//	                         pass: ends it. A fault that strikes no request fails the scene
//	hold s1 create           the next such request waits at the server, until
//	                         `resume ACTION`
//
// Each scene is checked against the rules of checks.go.
func Scenes(t *testing.T, path string) {
	datadriven.Walk(t, path, func(t *testing.T, file string) {
		all := variants(t, file)
		for _, variant := range all {
			t.Run(strings.Join(variant, " "), func(t *testing.T) {
				eventstest.Bubble(t, func(t *testing.T) { runFile(t, file, variant, all[0], nil) })
			})
		}
	})
}

// RealScenes plays the scenes of a file that are marked real on a real server. It must
// print the same as on the double, sooner or later, and in any order.
func RealScenes(t *testing.T, e *ensemble.Ensemble, path string) {
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		t.Skip("the double writes what is told")
	}
	raw, n := RawClient(t, e.Addr(0)), 0
	datadriven.Walk(t, path, func(t *testing.T, file string) {
		all := variants(t, file)
		for _, variant := range all {
			runFile(t, file, variant, all[0], func() stage {
				n++
				return &realStage{raw: raw, servers: e.Connect(), root: fmt.Sprintf("/%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), n)}
			})
		}
	})
}

// runFile plays each scene of a file at its own place: on the double, unless place is
// given. It leaves out the scenes that the first variant has played in the same way.
func runFile(t *testing.T, file string, variant, first []string, place func() stage) {
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	scenes := strings.Split("\n"+string(text), "\nscene")
	replacer := strings.NewReplacer(variant...)
	var s *scene
	defer func() {
		if s != nil {
			s.end()
		}
	}()
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		command := d.Cmd
		for _, arg := range d.CmdArgs {
			command += " " + arg.String()
		}
		lines := append([]string{command}, strings.Split(d.Input, "\n")...)
		if d.Cmd == "scene" {
			if s != nil {
				s.end()
				s = nil
			}
			head := strings.Fields(command)[1:]
			scenes = scenes[1:]
			switch {
			case !differs(scenes[0], variant, first):
			case place == nil:
				s = newScene(t, head, nil)
			case d.HasArg("real"):
				s = newScene(t, head, place())
			}
			lines = lines[1:]
		}
		if s == nil {
			return d.Expected
		}
		s.variant, s.place = replacer, d.Pos+": "
		var want []string
		if place != nil {
			want = strings.Split(strings.TrimSuffix(d.Expected, "\n"), "\n")
		}
		return s.play(lines, want)
	})
}

// differs reports whether a scene may differ in a variant from one in the first variant,
// or is in the first: it uses each variable that has another value.
func differs(scene string, variant, first []string) bool {
	for i := 0; i < len(variant); i += 2 {
		if variant[i+1] != first[i+1] && !strings.Contains(scene, variant[i]) {
			return false
		}
	}
	return true
}

// variants returns the combinations that the file's lines "# for $name: value value"
// describe, each as $name, value, $name, value.
func variants(t *testing.T, file string) [][]string {
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	all := [][]string{nil}
	for line := range strings.Lines(string(text)) {
		head, values, found := strings.Cut(line, ": ")
		name, is := strings.CutPrefix(head, "# for ")
		if !found || !is || !strings.HasPrefix(name, "$") {
			continue
		}
		var more [][]string
		for _, value := range strings.Fields(values) {
			for _, one := range all {
				more = append(more, append(slices.Clone(one), name, strings.ReplaceAll(value, "_", " ")))
			}
		}
		all = more
	}
	return all
}

// A scene is played at one place, from one head to the next.
type scene struct {
	*testing.T
	on  stage
	srv *zktest.Server // nil on a real server

	nocost, vague, ownerless, exclusive, brief, leases bool
	variant                                            *strings.Replacer
	place                                              string // file and line of the current block

	sessions  map[string]*coordinator.Coordinator
	streams   map[string]bool  // the sessions whose stream is read
	ids       map[int64]string // names of sessions by ID, including ended ones
	broken    map[string]int64 // sessions that are muted or lagging, by name
	callers   []*caller
	observers []*observer
	contexts  map[string]context.Context
	cancel    map[string]context.CancelCauseFunc
	handles   map[string]lock   // handles of semaphores, because Resize changes the size that a handle knows
	labels    map[string]string // labels of nodes
	named     []int64           // the tokens with names, in the order of their grants
	highest   map[string]int64  // the greatest token granted at a path
	alone     map[string]int64  // the greatest token of a holder that excludes all others
	grants    map[string]string // callers by session and ID of the grant

	mu     sync.Mutex // guards the fields below, and those of callers
	line   int        // the current line
	start  time.Time
	heard  []news
	asked  map[int64]map[zktest.Op]int
	faults []*fault
	resume chan zktest.Action
}

func newScene(t *testing.T, head []string, on stage) *scene {
	s := &scene{
		T: t, on: on, variant: strings.NewReplacer(),
		sessions: map[string]*coordinator.Coordinator{}, streams: map[string]bool{}, ids: map[int64]string{},
		broken: map[string]int64{}, contexts: map[string]context.Context{}, cancel: map[string]context.CancelCauseFunc{},
		handles: map[string]lock{}, labels: map[string]string{}, highest: map[string]int64{}, alone: map[string]int64{},
		grants: map[string]string{}, asked: map[int64]map[zktest.Op]int{},
	}
	settings := map[string]*bool{
		"nocost": &s.nocost, "vague": &s.vague, "ownerless": &s.ownerless, "exclusive": &s.exclusive, "brief": &s.brief, "leases": &s.leases,
		"real": new(bool), // for RealScenes
	}
	for _, word := range head {
		if settings[word] == nil {
			t.Fatalf("scene: no setting %q", word)
		}
		*settings[word] = true
	}
	if on == nil {
		s.srv = zktest.Start(t)
		s.on = doubleStage{s.srv}
		s.srv.Intercept(s.intercept)
	}
	return s
}

// play plays lines, and returns their result. want has the result in the file, if the
// place has to wait for it.
func (s *scene) play(lines, want []string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	width := 0
	for _, line := range lines {
		width = max(width, len(line))
	}
	var told, said []string
	s.begin()
	for i, line := range lines {
		if strings.HasPrefix(line, "#") {
			told = append(told, line)
			continue
		}
		if s.brief {
			s.begin()
			said = nil
		}
		made, before := s.created(), len(s.callers)
		for _, steps := range strings.Split(s.variant.Replace(line), ";") {
			s.mu.Lock()
			s.line++
			s.mu.Unlock()
			for _, step := range strings.Split(steps, "&") {
				if s.srv != nil {
					eventstest.Doing(s, s.place+strings.TrimSpace(step))
				}
				said = append(said, s.step(strings.Fields(step))...)
			}
			s.on.settle(s.placed)
			s.look()
		}
		s.checkTries(line, s.callers[before:], s.created()-made)
		if !s.brief {
			continue
		}
		state := s.state(said)
		if want != nil {
			wanted := strings.TrimSpace(strings.TrimPrefix(want[min(i, len(want)-1)], line))
			s.on.settle(func() bool {
				s.look()
				state = s.state(said)
				return sameTold(wanted, state)
			})
			if sameTold(wanted, state) {
				state = wanted
			}
		}
		told = append(told, strings.TrimRight(fmt.Sprintf("%-*s   %s", width, line, state), " "))
	}
	if !s.brief {
		told = append(told, said...)
		told = append(told, s.news()...)
		told = append(told, s.standing()...)
	}
	return strings.Join(told, "\n") + "\n"
}

// begin resets the reports and the requests.
func (s *scene) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line, s.start, s.heard, s.asked = 0, time.Now(), nil, map[int64]map[zktest.Op]int{}
}

// sameTold reports whether two results are the same in any order.
func sameTold(one, other string) bool {
	sorted := func(told string) []string { return slices.Sorted(slices.Values(strings.Split(told, "; "))) }
	return slices.Equal(sorted(one), sorted(other))
}

// end mends every fault, ends all callers, and checks that nothing is left.
func (s *scene) end() {
	if s.srv != nil {
		s.noFaults()
		s.srv.Down(false)
		s.srv.MuteAll(false)
		for _, id := range s.broken {
			s.srv.Lag(id, false)
		}
	}
	s.endCallers()
	for _, cancel := range s.cancel {
		cancel(nil)
	}
	for _, c := range s.sessions {
		_ = c.Close() // the step close checks the result
	}
	if s.srv != nil {
		synctest.Wait()
	}
}

// duration parses a duration.
func (s *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	s.must(err)
	return d
}

func (s *scene) must(err error) {
	s.Helper()
	eventstest.Must(s, err)
}

// want fails the scene unless the condition holds.
func (s *scene) want(holds bool, format string, args ...any) {
	s.Helper()
	if !holds {
		s.Errorf(format, args...)
	}
}
