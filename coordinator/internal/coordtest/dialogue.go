package coordtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A dialogue is one scene of a file in testdata/scenes. Callers in the sessions a, b, c take locks and release them, and something breaks.
// Above the line stand the steps. Below it stands each step again with what it led to: which callers hold, which wait, and what else was
// told. `go test ./coordinator -run Scenes -rewrite` writes the part below the line anew.
//
// A scene tells less than a play (see Play): no requests and no times, only what is the same on every server. So the scenes that begin with
// "play real" are played on a real server, too.
//
//	w = a write             w holds
//	r = b read try          w holds; r ended: ErrNotAcquired
//	release w
//
// A line is one step, or several. Behind a line and a semicolon nothing moves any more (in virtual time); behind an ampersand the next
// step comes at once.
//
//	NAME = SESSION KIND...    the session asks for a lock; NAME is the data of its nodes as well
//	  mutex, read, write, unfair, election; sem:N, adopt:N (N permits), multi PATH PATH:r PATH:w
//	  reentrant, kazoo        options of the lock
//	  at=PATH permits=N max=D try in=NAME  (in: with the context of NAME's lock; detached: which does not end with it)
//	NAME = SESSION observe    an observer of the election
//	release NAME..., wait D
//	expire, cut, mute, unmute, lag, unlag, close SESSION
//	down, up                  of the server
//	delete NAME [MEMBER]      its node, by hand; mark NAME TEXT writes into it
//	set, create PATH [DATA]; remove, data PATH; sequence PATH N
//	resize SESSION KIND N, proclaim SESSION NAME TEXT, queue SESSION KIND, txn NAME PATH, read NAME (a slow observer)
//	next SESSION OP ACTION    the next request of that kind: cut-before, cut-after, throttle, deny, D (a delay), delete NAME
//
// The player checks in every scene: the tokens of holders that exclude each other grow, and a reader in the place of a writer has the
// writer's. The nodes of a Grant are there, with the caller's data. A try in vain creates nothing. A loss is told once on each channel. When
// all have released, no node is left.
type dialogue struct {
	*testing.T
	on       stage
	callers  map[string]*coordinator.Coordinator
	streams  map[string]<-chan events.Event
	handles  map[string]acquirer // by session and kind: Resize changes what a handle believes
	mu       sync.Mutex          // guards all
	all      []*part
	watching []*follower
	broken   map[string]int64 // the session that was muted, or reads what is past
	tokens   map[string]int64 // the greatest one granted at a path
	alone    map[string]int64 // the greatest one of a holder that excludes all
	notes    []string         // what was told since the step began
}

// ElectionPath is the election that most tests hold.
const ElectionPath = "/service/leader"

type acquirer interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
	Queue(ctx context.Context) ([]events.Contender, error)
	Path() string
}

// Candidates has an election's candidates acquire.
type Candidates struct{ *coordinator.Election }

// Acquire campaigns.
func (c Candidates) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return c.Campaign(ctx, options...)
}

// HeardSoFar returns what an observer has heard that it has not read yet, and whether it hears no more.
func HeardSoFar(seen <-chan events.Leader) (l events.Leader, ok, closed bool) {
	select {
	case l, open := <-seen:
		return l, open, !open
	default:
		return events.Leader{}, false, false
	}
}

// A stage is where a dialogue is played: the double or a real server.
type stage interface {
	connect(t *testing.T) *coordinator.Coordinator
	// tree returns all ephemeral nodes with their data, as "path data".
	tree() []string
	children(path string) []string
	data(path string) (data string, there bool)
	// made returns an error unless the session has made the node, with the token if there is one.
	made(node string, session, token int64) error
	create(path string, data []byte) error
	set(path string, data []byte) error
	remove(path string) error
	// settle waits until the state is the one that is wanted, or cannot change any more.
	settle(reached func() bool)
}

// A part is what one name stands for: an acquisition.
type part struct {
	name         string
	a            *coordinator.Acquisition
	session      string
	paths        []string
	shared       []bool // per path
	permits      bool
	placeless    bool // it waits without a node
	in           *part
	granted      bool
	over         bool
	ctx          context.Context // of the lock, from the grant on
	lost, stream int             // how often its loss was told, on the channel and on the stream
	why          error
}

// A follower is what one name stands for: a channel of leaders.
type follower struct {
	name string
	seen <-chan events.Leader
	last events.Leader
	over bool
	slow bool // it reads only when it is told to
}

// Scenes plays a file of testdata on the double.
func Scenes(t *testing.T, file string) {
	t.Helper()
	scenes(t, file, func(t *testing.T, d *datadriven.TestData) (told string) {
		Bubble(t, func(t *testing.T, srv *zktest.Server) {
			told = newDialogue(t, doubleStage{srv}).play(d.Input, nil)
		})
		return told
	})
}

// Scene plays one scene on the double, and returns what was told.
func Scene(t *testing.T, srv *zktest.Server, steps ...string) string {
	t.Helper()
	return newDialogue(t, doubleStage{srv}).play(strings.Join(steps, "\n"), nil)
}

// scenes has each scene of a file played.
func scenes(t *testing.T, file string, play func(t *testing.T, d *datadriven.TestData) string) {
	t.Helper()
	datadriven.RunTest(t, filepath.Join("testdata", "scenes", file+".txt"), func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		return play(t, d)
	})
}

func newDialogue(t *testing.T, on stage) *dialogue {
	t.Helper()
	return &dialogue{
		T: t, on: on, callers: map[string]*coordinator.Coordinator{}, streams: map[string]<-chan events.Event{},
		handles: map[string]acquirer{}, broken: map[string]int64{}, tokens: map[string]int64{}, alone: map[string]int64{},
	}
}

// play plays a scene. want has what was written below the line, if the stage has to wait for it.
func (d *dialogue) play(input string, want []string) string {
	d.Helper()
	var told strings.Builder
	lines := strings.Split(strings.TrimSpace(input), "\n")
	width := 0
	for _, line := range lines {
		width = max(width, len(line))
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "#") {
			fmt.Fprintln(&told, line)
			continue
		}
		d.notes = nil
		made := d.created()
		tried := 0
		state := ""
		for _, steps := range strings.Split(line, ";") {
			for _, step := range strings.Split(steps, "&") {
				d.step(strings.Fields(step))
				tried += strings.Count(step+" ", " try ")
			}
			d.on.settle(d.placed)
			state = d.state()
		}
		if want != nil {
			told := want[min(i, len(want)-1)]
			d.on.settle(func() bool {
				state = d.state()
				return sameTold(strings.TrimPrefix(told, line), state)
			})
			if sameTold(strings.TrimPrefix(told, line), state) {
				state = strings.TrimSpace(strings.TrimPrefix(told, line))
			}
		}
		if n := d.created() - made; tried > 0 && n > 0 && strings.Count(state, "ErrNotAcquired") == tried {
			d.Errorf("behind %q: a try in vain has led to %d requests that create", line, n)
		}
		fmt.Fprintln(&told, strings.TrimRight(fmt.Sprintf("%-*s   %s", width, line, state), " "))
	}
	d.end()
	return told.String()
}

// sameTold reports whether the same was told, in any order.
func sameTold(one, other string) bool {
	sorted := func(told string) []string {
		parts := strings.Split(strings.TrimSpace(told), "; ")
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(sorted(one), sorted(other))
}

// placed reports whether each that waits has its nodes. A virtual server is idle by then.
func (d *dialogue) placed() bool {
	if _, ok := d.on.(doubleStage); ok {
		return true
	}
	d.state()
	tree := d.on.tree()
	for _, p := range d.all {
		nodes := 0
		for _, line := range tree {
			if strings.HasSuffix(line, " "+p.name) {
				nodes++
			}
		}
		if !p.over && !p.granted && !p.placeless && nodes < len(p.paths) {
			return false
		}
	}
	return true
}

// end releases all, and checks that nothing is left.
func (d *dialogue) end() {
	for _, p := range d.all {
		if p.lost > 0 && (errorNames(p.a.Err()) != errorNames(p.why) || p.ctx.Err() == nil) {
			d.Errorf("%s has lost its lock: %v; it ended with %v, and its context with %v", p.name, p.why, p.a.Err(), p.ctx.Err())
		}
		p.a.Release()
	}
	for _, p := range d.all {
		d.on.settle(func() bool { return IsClosed(p.a.Done()) })
		if !IsClosed(p.a.Done()) {
			d.Errorf("at the end %s does not end", p.name)
		}
		d.listen()
		if p.lost != p.stream || p.lost > 1 {
			d.Errorf("the loss of %s was told %d times on its channel and %d times on the stream", p.name, p.lost, p.stream)
		}
	}
	var left []string
	d.on.settle(func() bool { left = d.on.tree(); return len(left) == 0 })
	if len(left) > 0 {
		d.Errorf("at the end these are left: %q", left)
	}
}

// caller returns the coordinator of a session, which is connected when it is first named.
func (d *dialogue) caller(name string) *coordinator.Coordinator {
	if d.callers[name] == nil {
		d.callers[name] = d.on.connect(d.T)
		d.streams[name] = d.callers[name].Events(d.Context())
	}
	return d.callers[name]
}

// part returns what a name stands for.
func (d *dialogue) part(name string) *part {
	d.mu.Lock() // an interceptor asks, too
	defer d.mu.Unlock()
	for _, p := range d.all {
		if p.name == name {
			return p
		}
	}
	d.Fatalf("no caller is named %q", name)
	return nil
}

// number reads a number.
func (d *dialogue) number(text string) int {
	n, err := strconv.Atoi(text)
	d.must(err)
	return n
}

// duration reads a duration.
func (d *dialogue) duration(text string) time.Duration {
	n, err := time.ParseDuration(text)
	d.must(err)
	return n
}

func (d *dialogue) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// tell notes what a step was told.
func (d *dialogue) tell(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// step does one step.
func (d *dialogue) step(words []string) {
	d.Helper()
	if len(words) > 2 && words[1] == "=" {
		c := d.caller(words[2])
		if words[3] == "observe" {
			dir := ElectionPath
			if len(words) > 4 && strings.HasPrefix(words[4], "at=") {
				dir = words[4][len("at="):]
			}
			d.watching = append(d.watching, &follower{
				name: words[0], seen: c.Election(dir).Observe(d.Context()), slow: slices.Contains(words, "slow"),
			})
			return
		}
		d.ask(words[0], words[2], words[3:])
		return
	}
	switch verb, words := words[0], words[1:]; verb {
	case "connect":
		for _, name := range words {
			d.caller(name)
		}
	case "release":
		for _, name := range words {
			if d.part(name).a.Release(); d.part(name).a.Valid() {
				d.Errorf("%s is valid right behind its release", name)
			}
		}
	case "wait":
		if _, ok := d.on.(doubleStage); ok { // on a real server the next line is awaited
			<-time.After(d.duration(words[0]))
		}
	case "read":
		for _, o := range d.watching {
			if o.name == words[0] {
				o.slow = false
				d.listen()
				o.slow = true
			}
		}
	case "close":
		d.must(d.caller(words[0]).Close())
	case "delete":
		d.must(d.on.remove(d.nodeOf(words)))
	case "create":
		d.must(d.on.create(words[0], []byte(strings.Join(words[1:], " "))))
	case "set":
		d.must(d.on.set(words[0], []byte(strings.Join(words[1:], " "))))
	case "mark":
		d.must(d.on.set(d.nodeOf(words[:1]), []byte(strings.Join(words[1:], " "))))
	case "remove":
		d.must(d.on.remove(words[0]))
	case "data":
		if data, there := d.on.data(words[0]); there {
			d.tell("%s has %q", words[0], data)
		} else {
			d.tell("%s is not there", words[0])
		}
	case "resize":
		s, _, _ := d.handle(words[0], append(words[1:2:2], words[3:]...))
		if err := s.(*coordinator.Semaphore).Resize(d.Context(), d.number(words[2])); err != nil {
			d.tell("%s", errorNames(err))
		}
	case "proclaim":
		if err := d.caller(words[0]).Election(ElectionPath).Proclaim(d.Context(), d.part(words[1]).a, []byte(strings.Join(words[2:], " "))); err != nil {
			d.tell("%s", errorNames(err))
		}
	case "queue":
		l, _, _ := d.handle(words[0], words[1:])
		queue, err := l.Queue(d.Context())
		if err != nil {
			d.tell("%s", errorNames(err))
			return
		}
		d.tell("queue: %s", d.queue(queue))
	case "txn":
		res, err := d.part(words[0]).a.Txn(d.Context(), &zk.CreateRequest{Path: words[1], Acl: zk.WorldACL(zk.PermAll)})
		if err != nil {
			d.tell("%s", errorNames(err))
		} else if len(res) != 1 || res[0].String != words[1] {
			d.Errorf("the transaction of %s was answered %+v", words[0], res)
		}
	default:
		d.fault(verb, words)
	}
}

// queue renders a queue, and checks that each of its contenders is what its node says.
func (d *dialogue) queue(queue []events.Contender) string {
	var words []string
	for _, c := range queue {
		word := string(c.Data)
		if !slices.Contains(d.on.tree(), c.Node+" "+word) || c.Session != d.callers[d.part(word).session].SessionID() {
			d.Errorf("in the queue is %+v, which is not there or not of that session", c)
		}
		if c.Kind != events.KindLock {
			word += fmt.Sprintf("(%v)", c.Kind)
		}
		if c.Holding {
			word += "+"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// fault does a step that only the double can do.
func (d *dialogue) fault(verb string, words []string) {
	d.Helper()
	on, ok := d.on.(doubleStage)
	if !ok {
		d.Fatalf("only the double can do this: %s %q", verb, words)
	}
	if verb == "down" || verb == "up" {
		on.Down(verb == "down")
		return
	}
	if verb == "sequence" {
		d.must(on.SetSequence(words[0], int32(d.number(words[1]))))
		return
	}
	id := d.caller(words[0]).SessionID()
	switch verb {
	case "expire":
		d.must(on.Expire(id))
	case "cut":
		on.Cut(id)
	case "mute", "lag":
		d.broken[words[0]] = id // it may have another session when it is mended
		on.Mute(id, verb == "mute")
		on.Lag(id, verb == "lag")
	case "unmute", "unlag":
		on.Mute(d.broken[words[0]], false)
		on.Lag(d.broken[words[0]], false)
	case "next":
		on.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session != id || words[1] != r.Op.String() && (words[1] != "creating" || !Creates(r)) {
				return zktest.Pass()
			}
			on.Intercept(nil)
			switch words[2] {
			case "cut-before":
				return zktest.CutBefore()
			case "cut-after":
				return zktest.CutAfter()
			case "throttle":
				return zktest.Fail(zktest.Throttled)
			case "deny":
				return zktest.Fail(zktest.NoAuth)
			case "delete": // something is deleted right before the request
				d.must(on.Delete(d.nodeOf(words[3:])))
				return zktest.Pass()
			default:
				return zktest.Delay(d.duration(words[2]))
			}
		})
	default:
		d.Fatalf("no such step: %s %q", verb, words)
	}
}

// nodeOf returns the node of a part, or that of one of its members.
func (d *dialogue) nodeOf(words []string) string {
	d.Helper()
	member := 0
	if len(words) > 1 {
		member = d.number(words[1])
	}
	var nodes []string
	for _, line := range d.on.tree() {
		if node, data, _ := strings.Cut(line, " "); data == words[0] {
			nodes = append(nodes, node)
		}
	}
	if grant := d.part(words[0]).a.Grant(); nodes == nil && grant.Node != "" { // its data was overwritten
		return grant.Node
	}
	if member >= len(nodes) {
		d.Fatalf("%v has no such node; there are %q", words, d.on.tree())
	}
	return nodes[member]
}

// ask has a session ask for a lock.
func (d *dialogue) ask(name, session string, words []string) {
	d.Helper()
	l, p, rest := d.handle(session, words)
	if got := l.Path(); got != p.paths[0] {
		d.Errorf("the lock of %s is at %s, want %s", name, got, p.paths[0])
	}
	p.name, p.session = name, session
	ctx := d.Context()
	options := []coordinator.AcquireOption{coordinator.WithData([]byte(name))}
	for _, word := range rest {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "try":
			options = append(options, coordinator.Try())
		case "max":
			options = append(options, coordinator.WithMaxWait(d.duration(value)))
		case "permits":
			options = append(options, coordinator.WithPermits(d.number(value)))
		case "in":
			in := d.part(value)
			if in.session == session && in.a.Valid() && !p.permits {
				p.in = in
			}
			ctx = in.a.Context(ctx) //nolint:fatcontext // it holds each lock that is named
		case "within":
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, d.duration(value))
			d.Cleanup(cancel)
		case "detached":
			ctx = context.WithoutCancel(ctx)
		default:
			d.Fatalf("no such option: %s", word)
		}
	}
	p.a = l.Acquire(ctx, options...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, p)
}

// handle returns the lock that a session asks for, which paths it is at, and the words that are about the acquisition.
func (d *dialogue) handle(session string, words []string) (l acquirer, p *part, rest []string) {
	d.Helper()
	c := d.caller(session)
	dir, elected, kind := LockPath, ElectionPath, ""
	var options []coordinator.LockOption
	var members []string
	for _, word := range words {
		switch {
		case strings.HasPrefix(word, "at="):
			dir = word[len("at="):]
			elected = dir
		case word == "reentrant":
			options = append(options, coordinator.Reentrant())
		case word == "kazoo":
			options = append(options, coordinator.AsKazoo())
		case kind == "":
			kind = word
		case kind == "multi" && strings.HasPrefix(word, "/"):
			members = append(members, word)
		default:
			rest = append(rest, word)
		}
	}
	if kind == "election" {
		dir = elected
	}
	p = &part{paths: []string{dir}, shared: []bool{kind == "read"}, placeless: kind == "unfair"}
	key := fmt.Sprint(session, kind, dir, members, len(options), slices.Contains(words, "kazoo"))
	if d.handles[key] != nil && kind != "multi" {
		p.permits = strings.Contains(kind, ":")
		return d.handles[key], p, rest
	}
	name, size, _ := strings.Cut(kind, ":")
	switch name {
	case "mutex":
		l = c.Mutex(dir, options...)
	case "read":
		l = c.ReadWrite(dir, options...).Read()
	case "write":
		l = c.ReadWrite(dir, options...).Write()
	case "unfair":
		l = c.Unfair(dir, options...)
	case "election":
		l = Candidates{c.Election(elected, options...)}
	case "sem":
		p.permits = true
		l = c.Semaphore(dir, d.number(size), options...)
	case "adopt":
		p.permits = true
		l = c.Semaphore(dir, d.number(size), append(options, coordinator.AdoptSize())...)
	case "multi":
		var locks []*coordinator.Lock
		p.paths, p.shared = nil, nil
		for _, member := range members {
			path, side, _ := strings.Cut(member, ":")
			lock := c.Mutex(path)
			switch side {
			case "r":
				lock = c.ReadWrite(path).Read()
			case "w":
				lock = c.ReadWrite(path).Write()
			}
			locks, p.paths, p.shared = append(locks, lock), append(p.paths, path), append(p.shared, side == "r")
		}
		l = c.Multi(locks...)
	default:
		d.Fatalf("no such kind of lock: %q", kind)
	}
	d.handles[key] = l
	return l, p, rest
}

// state returns what is told of the moment.
func (d *dialogue) state() string {
	d.Helper()
	var held, waiting, fresh []string
	var now []*part
	for _, p := range d.all {
		select {
		case lost := <-p.a.Lost():
			p.lost, p.why = p.lost+1, lost.Err
			fresh = append(fresh, fmt.Sprintf("%s lost: %v", p.name, lost.Reason))
		default:
		}
		select {
		case <-p.a.Granted():
			if p.granted {
				d.Errorf("%s is granted twice", p.name)
			}
			p.granted = true
			now = append(now, p)
		default:
		}
		switch {
		case IsClosed(p.a.Done()):
			if err := p.a.Err(); err != nil && !p.over && p.lost == 0 {
				if errors.Is(err, coordinator.ErrKind) && !strings.Contains(err.Error(), p.paths[0]) {
					d.Errorf("%s ended with %v, which does not name %s", p.name, err, p.paths[0])
				}
				fresh = append(fresh, fmt.Sprintf("%s ended: %s", p.name, errorNames(err)))
			}
			p.over = true
		case p.a.Valid():
			held = append(held, p.name)
		case !p.granted:
			if node := p.a.Grant().Node; node != "" {
				d.Errorf("%s waits, and its Grant has the node %s", p.name, node)
			}
			waiting = append(waiting, p.name)
		}
	}
	slices.SortStableFunc(now, func(p, q *part) int { return int(p.a.Grant().Token - q.a.Grant().Token) })
	for _, p := range now {
		d.granted(p)
	}
	d.notes = append(d.notes, fresh...)
	d.listen()
	var parts []string
	if len(held) > 0 {
		parts = append(parts, strings.Join(held, " ")+plural(held, " holds", " hold"))
	}
	if len(waiting) > 0 {
		parts = append(parts, strings.Join(waiting, " ")+plural(waiting, " waits", " wait"))
	}
	if leases := d.on.children(LockPath + "/leases"); len(leases) > 0 {
		parts = append(parts, fmt.Sprint("leases ", len(leases)))
	}
	return strings.Join(append(parts, d.notes...), "; ")
}

func plural(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// granted checks the Grant of one that was just granted.
func (d *dialogue) granted(p *part) {
	d.Helper()
	grant := p.a.Grant()
	if grant.Path != p.paths[0] || grant.Session != d.callers[p.session].SessionID() && grant.Session != 0 && d.callers[p.session].SessionID() != 0 {
		d.Errorf("%s is granted %+v, want the path %s", p.name, grant, p.paths[0])
	}
	p.ctx = p.a.Context(context.Background())
	if p.a.Valid() && p.in == nil {
		d.members(p, grant)
	}
	for i, path := range p.paths {
		switch {
		case p.in != nil && slices.Contains(p.in.paths, path):
			outer := p.in.a.Grant()
			if same := p.shared[i] == p.in.shared[0]; grant.Token != outer.Token || (grant.Node == outer.Node) != same {
				d.Errorf("%s in the place of %s is granted %+v, want the token of %+v; and the same node: %v", p.name, p.in.name, grant, outer, same)
			}
			continue
		case p.shared[i] && grant.Token <= d.alone[path], !p.shared[i] && grant.Token <= d.tokens[path]:
			d.Errorf("%s is granted at %s with the token %d, want one above %d and %d", p.name, path, grant.Token, d.alone[path], d.tokens[path])
		}
		if !p.shared[i] {
			d.alone[path] = max(d.alone[path], grant.Token)
		}
		d.tokens[path] = max(d.tokens[path], grant.Token)
	}
}

// members checks that the nodes of a Grant are there, with the caller's data.
func (d *dialogue) members(p *part, grant events.Grant) {
	d.Helper()
	nodes := []events.Member{{Path: grant.Path, Node: grant.Node}}
	if len(grant.Members) > 0 {
		p.a.Grant().Members[0].Node = "another caller's" // each caller has a slice of its own
		if nodes = p.a.Grant().Members; nodes[0].Node != grant.Node {
			d.Errorf("%s is granted %+v: the first member is %+v", p.name, grant, nodes[0])
		}
	}
	if guard := p.a.Guard().Path; !strings.Contains(guard, grant.Node) {
		d.Errorf("the guard of %s rests on %s, want %s", p.name, guard, grant.Node)
	}
	tree, token := d.on.tree(), grant.Token
	if p.permits {
		token = 0 // that of the place in the queue, which has gone
	}
	for i, m := range nodes {
		if len(nodes) != len(p.paths) || m.Path != p.paths[i] || !slices.Contains(tree, m.Node+" "+p.name) {
			d.Errorf("%s is granted %+v at %q; there are %q", p.name, nodes, p.paths, tree)
		} else if err := d.on.made(m.Node, grant.Session, token); err != nil {
			d.Errorf("%s is granted %+v: %v", p.name, grant, err)
		}
	}
}

// listen notes what the streams and the observers were told.
func (d *dialogue) listen() {
	for _, session := range slices.Sorted(func(yield func(string) bool) {
		for name := range d.streams {
			if !yield(name) {
				return
			}
		}
	}) {
		for more := true; more; {
			select {
			case ev, open := <-d.streams[session]:
				if more = open; open {
					d.heard(session, ev)
					if _, ok := d.on.(doubleStage); ok {
						synctest.Wait() // the next one is offered only now
					}
				}
			default:
				more = false
			}
		}
	}
	for _, o := range d.watching {
		for more := !o.over && !o.slow; more; {
			l, ok, closed := HeardSoFar(o.seen)
			switch {
			case closed:
				o.over = true
				d.tell("%s hears no more", o.name)
			case ok && l.Node == "":
				d.tell("%s hears nobody", o.name)
			case ok:
				d.tell("%s hears %s", o.name, l.Data)
				l.Data[0] = 'x' // it is the reader's own
				for _, p := range d.all {
					if grant := p.a.Grant(); grant.Node == l.Node && grant.Token != l.Token {
						d.Errorf("%s hears %+v, which was granted %+v", o.name, l, grant)
					}
				}
				if l.Token < o.last.Token || l.Token == o.last.Token && l.Node != o.last.Node {
					d.Errorf("%s hears %+v behind %+v", o.name, l, o.last)
				}
				o.last = l
			}
			more = ok
		}
	}
}

// heard notes an event of the stream.
func (d *dialogue) heard(session string, ev events.Event) {
	named := func(id uint64) *part {
		for _, p := range d.all {
			if p.session == session && p.a.ID() == id {
				return p
			}
		}
		return &part{name: "somebody"}
	}
	switch ev := ev.(type) {
	case events.Requeued:
		d.tell("%s queues again", named(ev.ID).name)
	case events.Lost:
		named(ev.ID).stream++
	}
}

// created counts the requests that may have created something.
func (d *dialogue) created() int {
	if on, ok := d.on.(doubleStage); ok {
		return on.Requests(zktest.OpCreate) + on.Requests(zktest.OpMulti)
	}
	return 0
}

// errorNames names the errors that err is, with what else it tells.
func errorNames(err error) string {
	var held *coordinator.HeldError
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return "zk.ErrNodeExists"
	case errors.Is(err, coordinator.ErrSizeMismatch): // both sizes are named
		return "ErrSizeMismatch: " + err.Error()
	case errors.As(err, &held):
		return fmt.Sprintf("%s, %s has it", errorName(err), held.Holder.Data)
	}
	return errorName(err)
}

// doubleStage is the in-process server.
type doubleStage struct{ *zktest.Server }

func (s doubleStage) connect(t *testing.T) *coordinator.Coordinator { return Connect(t, s.Server) }
func (s doubleStage) children(path string) []string                 { return s.Children(path) }
func (s doubleStage) create(path string, data []byte) error         { return s.Create(path, data) }
func (s doubleStage) set(path string, data []byte) error            { return s.SetData(path, data) }
func (s doubleStage) remove(path string) error                      { return s.Delete(path) }

func (s doubleStage) data(path string) (string, bool) {
	data, there := s.Data(path)
	return string(data), there
}

func (s doubleStage) made(node string, session, _ int64) error {
	if owner := s.Owner(node); owner != session {
		return fmt.Errorf("the owner of %s is %#x", node, owner)
	}
	return nil
}

func (s doubleStage) tree() (nodes []string) {
	for _, node := range s.Tree() {
		if s.Owner(node) != 0 {
			data, _ := s.Data(node)
			nodes = append(nodes, fmt.Sprintf("%s %s", node, data))
		}
	}
	return nodes
}

func (s doubleStage) settle(reached func() bool) {
	synctest.Wait()
	if !reached() {
		<-time.After(30 * time.Second) // without a connection
		synctest.Wait()
		reached()
	}
}
