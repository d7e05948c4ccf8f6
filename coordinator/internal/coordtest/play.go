package coordtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// moment is less than anything that is waited for on purpose, and more than a new connection takes.
const moment = 100 * time.Millisecond

// Play plays every file of a folder, each in virtual time. A file is a play of callers with sessions of their own against one
// server: commands, and below each what the callers heard, who holds, which nodes stand, and what the sessions asked for.
// After a change of behaviour run the test with -rewrite and read the difference.
//
// A file with a line "# for $x: a b" is played once with a in the place of $x and once with b, and both times the same has to come of
// it (a_b stands for two words).
//
// A command has more lines if several things happen before anybody looks. The last thing a caller hears is printed with the
// time since the command began, unless that is less than 100 ms. Acquisitions and functions are callers (A), sessions are s1, s2, …:
//
//	scene                    a new server (tick=1s followers), new sessions, new callers; nocost: requests are not printed;
//	                         vague: nor times, which are random where a connection is made anew; ownerless: nor whose a node is, nor its kind;
//	                         exclusive: a grant BESIDE a holder is told, which nobody can avoid where a server ends a session or deletes a node
//	connect s1               only needed with options: timeout=3s tick=1s probe=1s loss-on-suspend; stream: what its stream says is printed
//	acquire A s1             asks for a lock: path=/locks/reindex kind=mutex (read, write, unfair, election, semaphore:4, multi:/a:/b)
//	                         try wait=1m data=text permits=2 reentrant detect revocable kazoo adopt
//	                         inside=B: with B's context (detached: that outlives B); ctx=C: with the context that `cancel C` ends; untaken: nobody reads the Grant
//	do A s1                  the same as a function under the lock, which stays inside until it is told to finish;
//	                         obeys=2s: it returns by itself so long after its context has ended
//	finish A                 the function returns (err: with an error; panic: with a panic; exit: its goroutine ends)
//	leave A B                releases one by one, and tells if another caller holds meanwhile, who has not held before, or one of them does not
//	release A, cancel C      and take A: somebody reads the Grant now
//	revoke R s1 grace=3s     asks for a lock back (path=…)
//	queue s1                 what a look at the queue finds (path=… kind=…)
//	warm s1 s2               both learn that the directory is ours
//	close s1, sleep 5s
//	expire, cut, mute, hush (mute and cut), unmute, lag, unlag, strand, unstrand s1; down, up, cutall
//	delete A (or a path), set A text, create /path, reap, tree, data A, watches
//	next s1 create cut-after what becomes of the next such request (cut-before, cut-after, swallow, delay=2s, fail=throttled);
//	                         always: of every such request; s1 or any; an operation, or any; pass: of nothing any more
//	hold s1 create           the next such request waits at the server, until `resume cut-after`
func Play(t *testing.T, folder string) {
	t.Helper()
	datadriven.Walk(t, folder, func(t *testing.T, file string) {
		t.Helper()
		for _, variant := range variants(t, file) {
			t.Run(strings.Join(variant, " "), func(t *testing.T) {
				eventstest.Bubble(t, func(t *testing.T) {
					p := &play{}
					replacer := strings.NewReplacer(variant...)
					p.begin(t, nil)
					defer p.end()
					datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
						t.Helper()
						return p.command(t, d, replacer)
					})
				})
			})
		}
	})
}

// variants returns what the file's lines "# for $name: value value" stand for: each combination of $name, value, $name, value.
func variants(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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

type play struct {
	srv                               *zktest.Server
	free, vague, ownerless, exclusive bool
	sessions                          map[string]*coordinator.Coordinator
	ids                               map[int64]string // of sessions, also of those that are over
	callers                           map[string]*caller
	contexts                          map[string]context.CancelCauseFunc
	ctx                               map[string]context.Context
	nodes                             map[string]string // from paths to labels
	tokens                            []int64           // in the order in which they were granted

	mu     sync.Mutex
	line   int
	start  time.Time
	heard  []news
	asked  map[int64]map[zktest.Op]int
	faults []fault
	resume chan zktest.Action
}

// caller is one acquisition, and perhaps the function that runs under it.
type caller struct {
	session, path string
	alone         bool // at most one such caller holds
	a             *coordinator.Acquisition
	grant         events.Grant
	ctx           context.Context // of the function
	take          chan struct{}
	finish        chan string
	over          bool
}

type news struct {
	line int // of the command
	at   time.Duration
	who  string
	text func() string // called when nothing is under way
}

type fault struct {
	session string
	op      string
	action  zktest.Action
	once    bool
	held    <-chan zktest.Action // decided about later
}

func (p *play) begin(t *testing.T, args []string) {
	t.Helper()
	p.end()
	var settings []zktest.Setting
	next := play{}
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "tick":
			settings = append(settings, zktest.Tick(duration(t, value)))
		case "nocost":
			next.free = true
		case "vague":
			next.vague = true
		case "exclusive":
			next.exclusive = true
		case "ownerless":
			next.ownerless = true
		case "followers":
			settings = append(settings, zktest.Followers())
		default:
			t.Fatalf("scene: no argument %q", arg)
		}
	}
	*p = play{
		free: next.free, vague: next.vague, ownerless: next.ownerless, exclusive: next.exclusive,
		srv: zktest.Start(t, settings...), sessions: map[string]*coordinator.Coordinator{}, ids: map[int64]string{}, callers: map[string]*caller{},
		asked: map[int64]map[zktest.Op]int{}, contexts: map[string]context.CancelCauseFunc{}, ctx: map[string]context.Context{}, nodes: map[string]string{},
	}
	p.srv.Intercept(p.intercept)
}

// end ends what a scene has begun.
func (p *play) end() {
	if p.srv == nil {
		return
	}
	p.srv.Intercept(nil)
	p.srv.Down(false)
	p.srv.MuteAll(false)
	for _, c := range p.callers {
		if c.finish != nil && !c.over {
			c.finish <- ""
		}
	}
	for _, cancel := range p.contexts {
		cancel(nil)
	}
	for _, c := range p.sessions {
		_ = c.Close() // what it says is the business of `close`
	}
	synctest.Wait()
}

func (p *play) intercept(r zktest.Request) zktest.Action {
	if r.Op == zktest.OpPing || r.Op == zktest.OpClose {
		return zktest.Pass()
	}
	action, held := p.decide(r)
	if held != nil {
		return <-held
	}
	return action
}

// decide counts a request and says what becomes of it.
func (p *play) decide(r zktest.Request) (action zktest.Action, held <-chan zktest.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Op != zktest.OpConnect {
		if p.asked[r.Session] == nil {
			p.asked[r.Session] = map[zktest.Op]int{}
		}
		p.asked[r.Session][r.Op]++
	}
	for i, f := range p.faults {
		named := f.op == r.Op.String() || f.op == "any" && r.Op != zktest.OpConnect || f.op == "create" && Creates(r)
		if named && (f.session == "any" || f.session == p.named(r.Session)) {
			if f.once {
				p.faults = slices.Delete(p.faults, i, i+1)
			}
			return f.action, f.held
		}
	}
	return zktest.Pass(), nil
}

// hear notes what somebody heard, in whatever goroutine.
func (p *play) hear(who string, text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, news{p.line, time.Since(p.start), who, text})
}

func (p *play) command(t *testing.T, d *datadriven.TestData, variant *strings.Replacer) string {
	t.Helper()
	first := d.Cmd
	for _, arg := range d.CmdArgs {
		first += " " + arg.String()
	}
	p.mu.Lock()
	p.start, p.heard, p.asked = time.Now(), nil, map[int64]map[zktest.Op]int{}
	p.mu.Unlock()
	var out []string
	for i, line := range append([]string{first}, strings.Split(d.Input, "\n")...) {
		p.mu.Lock()
		p.line = i
		p.mu.Unlock()
		if fields := strings.Fields(variant.Replace(line)); len(fields) > 0 {
			if said := p.act(t, fields[0], fields[1:]); said != "" {
				out = append(out, said)
			}
			synctest.Wait()
			p.remember()
		}
	}
	p.mu.Lock()
	heard := slices.Clone(p.heard)
	p.mu.Unlock()
	slices.SortStableFunc(heard, func(a, b news) int {
		return cmp.Or(a.line-b.line, cmp.Compare(a.at, b.at), strings.Compare(a.who, b.who))
	})
	for _, n := range heard {
		line := n.who + ": " + n.text()
		if n.at >= moment && !p.vague {
			line += fmt.Sprintf(" (after %v)", n.at.Round(time.Millisecond))
		}
		out = append(out, line)
	}
	return strings.Join(append(out, p.standing()), "\n") + "\n"
}

// remember gives every ephemeral node that it has not seen a label, in the order of their numbers.
func (p *play) remember() {
	tree := p.srv.Tree()
	slices.SortFunc(tree, func(a, b string) int {
		na, _ := events.ParseName(path.Base(a))
		nb, _ := events.ParseName(path.Base(b))
		if na.Seq != nb.Seq {
			return int(na.Seq - nb.Seq)
		}
		return strings.Compare(path.Dir(a), path.Dir(b))
	})
	for _, node := range tree {
		if p.srv.Owner(node) != 0 {
			p.label(node)
		}
	}
}

// label names a node, whose path has a GUID in it.
func (p *play) label(node string) string {
	if node == "" {
		return "no node"
	}
	if p.nodes[node] == "" {
		p.nodes[node] = fmt.Sprint("n", len(p.nodes)+1)
	}
	return p.nodes[node]
}

// token names a token by the order of the grants, and says so if that is not the order of the tokens.
func (p *play) token(token int64) string {
	i := slices.Index(p.tokens, token)
	if i < 0 {
		i = len(p.tokens)
		p.tokens = append(p.tokens, token)
	}
	name := fmt.Sprint("t", i+1)
	for j, earlier := range p.tokens[:i] {
		if earlier > token {
			return fmt.Sprintf("%s (LESS THAN t%d)", name, j+1)
		}
	}
	return name
}

// standing tells who holds and who waits, which ephemeral nodes there are and whose, and what was asked for.
func (p *play) standing() string {
	var who, nodes, asked []string
	for _, name := range slices.Sorted(maps.Keys(p.callers)) {
		switch c := p.callers[name]; {
		case c.a == nil: // a function that is not in yet
			if !c.over {
				who = append(who, name+" waits")
			}
		case c.a.Valid():
			who = append(who, name+" holds")
		case !c.over && c.grant.Node != "":
			who = append(who, name+" has lost")
		case !IsClosed(c.a.Done()):
			who = append(who, name+" waits")
		}
	}
	for _, node := range p.srv.Tree() {
		if owner := p.srv.Owner(node); owner != 0 {
			if label := p.label(node); p.ownerless {
				nodes = append(nodes, label)
			} else {
				nodes = append(nodes, label+" of "+p.nameOf(owner))
			}
		}
	}
	slices.SortFunc(nodes, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	p.mu.Lock()
	requests := p.asked
	p.mu.Unlock()
	for id, ops := range requests {
		var parts []string
		for op, n := range ops {
			parts = append(parts, times(n, op.String()))
		}
		slices.Sort(parts)
		asked = append(asked, p.nameOf(id)+": "+strings.Join(parts, ", "))
	}
	slices.Sort(asked)
	text := "== " + or(strings.Join(who, ", "), "nobody") + "; " + or(strings.Join(nodes, ", "), "no node")
	if len(asked) > 0 && !p.free {
		text += "\n   " + strings.Join(asked, "; ")
	}
	return text
}

func times(n int, what string) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%d %s", n, what)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var errFinished = errors.New("unfinished work")

// errorName names the errors that callers may test for.
func errorName(err error) string {
	if err == nil {
		return "nil"
	}
	var names []string
	for _, known := range []struct {
		name string
		err  error
	}{
		{"ErrSessionExpired", coordinator.ErrSessionExpired}, {"ErrLeaseRanOut", coordinator.ErrLeaseRanOut},
		{"ErrNodeRemoved", coordinator.ErrNodeRemoved}, {"ErrSuspended", coordinator.ErrSuspended}, {"ErrRevoked", coordinator.ErrRevoked},
		{"ErrReleased", coordinator.ErrReleased}, {"ErrNotAcquired", coordinator.ErrNotAcquired}, {"ErrTimeout", coordinator.ErrTimeout},
		{"ErrDeadlock", coordinator.ErrDeadlock}, {"ErrClosed", coordinator.ErrClosed}, {"ErrOutcomeUnknown", coordinator.ErrOutcomeUnknown},
		{"ErrPath", coordinator.ErrPath}, {"ErrTooLarge", coordinator.ErrTooLarge}, {"ErrNoAuth", coordinator.ErrNoAuth},
		{"ErrQuota", coordinator.ErrQuota}, {"ErrSequenceEnd", coordinator.ErrSequenceEnd}, {"ErrKind", coordinator.ErrKind},
		{"ErrRecord", coordinator.ErrRecord}, {"ErrMembers", coordinator.ErrMembers}, {"ErrDuplicate", coordinator.ErrDuplicate},
		{"ErrNotCandidate", coordinator.ErrNotCandidate}, {"ErrSizeMismatch", coordinator.ErrSizeMismatch}, {"ErrPermits", coordinator.ErrPermits},
		{"ErrNotHeld", coordinator.ErrNotHeld}, {"ErrNotRevocable", coordinator.ErrNotRevocable}, {"ErrGrace", coordinator.ErrGrace},
		{"ErrData", coordinator.ErrData}, {"its context", errCancelled}, {"its error", errFinished},
		{"context canceled", context.Canceled}, {"deadline exceeded", context.DeadlineExceeded},
	} {
		if errors.Is(err, known.err) {
			names = append(names, known.name)
		}
	}
	if len(names) == 0 {
		return err.Error()
	}
	if lost := (*coordinator.LostError)(nil); errors.As(err, &lost) {
		names[0] = "LostError " + names[0]
	}
	return strings.Join(names, " + ")
}
