package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// team is a family's contenders at a lock.
type team struct {
	family family
	forms  []form // one for each contender
	killed []form // one for each contender that has its own process and is killed inside
	seldom int    // how many sections they pause after they have left; 0: none
}

// tier is how much of a workload to play when the tests do not run at full length.
type tier int

const (
	fullLength      tier = iota // nothing
	quick                       // fewer sections, and no contender is killed
	quickWithDeaths             // fewer sections
)

// workload is a lock at which teams meet for a number of sections.
type workload struct {
	name  string
	tier  tier
	teams []team // the first team's first contender comes first, and creates the directory
	blind family // see referee

	sections int // if not 0, the number of sections at any test length, with killed holders
}

// game is a workload that is being played.
type game struct {
	workload

	witness witness
	dir     string // the lock's path
	nodes   string // the parent of the holders' nodes
	total   int    // the number of sections to enter

	seldom map[*contender]int      // how many sections a contender pauses
	over   chan struct{}           // closed once no contender needs to enter any more
	giveUp context.CancelCauseFunc // ends the game after an error
	silent *time.Timer             // calls giveUp after a very long silence
	took   time.Duration           // from the first entry to the last departure

	mu      sync.Mutex // guards everything below; its owner is the referee
	referee *referee
	death   map[string]time.Time                  // when each contender was killed
	freed   []string                              // for each node, how long after that it was gone
	awaited map[chan struct{}]func(*referee) bool // see when
}

// played returns the workloads to play: at full length all of them; in `make test` one in
// three of the quick ones for each commit. TestMatrix runs each library every time.
func played(all []workload) []workload {
	return slices.DeleteFunc(all, func(w workload) bool {
		return !eventstest.Full() && (w.tier == fullLength || !eventstest.InTurn(w.name))
	})
}

// play plays a workload, and fails the test for every error. The caller judges the
// referee's results.
func (a *arena) play(t *testing.T, w workload) *game {
	t.Helper()
	g := &game{
		workload: w, witness: a.witness, dir: "/interop/" + strings.ReplaceAll(t.Name(), "/", "-"),
		total: cmp.Or(w.sections, eventstest.Amount(300, 2000)),
		death: make(map[string]time.Time), seldom: make(map[*contender]int), over: make(chan struct{}),
		awaited: make(map[chan struct{}]func(*referee) bool),
	}
	permits := 0
	for _, team := range w.teams {
		opinion, _ := team.forms[0].permits()
		permits = max(permits, opinion)
	}
	g.nodes = g.dir
	if permits > 0 {
		g.nodes = path.Join(g.dir, "leases")
	}
	g.referee = newReferee(permits, w.blind)
	ctx, giveUp := context.WithCancelCause(t.Context())
	defer giveUp(nil)
	g.giveUp = giveUp
	g.silent = time.AfterFunc(patience, func() { giveUp(fmt.Errorf("%s: no contender has said anything for %v", w.name, patience)) })
	defer g.silent.Stop()
	players, doomed := g.open(ctx, t, a)
	began := time.Now()
	g.run(ctx, t, players, doomed)
	eventstest.Check(t, context.Cause(ctx))
	g.took = time.Since(began)
	g.check(t)
	return g
}

func (g *game) open(ctx context.Context, t *testing.T, a *arena) (players, doomed []*contender) {
	t.Helper()
	add := func(p *player, f form) *contender {
		c, err := p.open(ctx, fmt.Sprintf("%s-%s-%d", p.family, f, len(players)+len(doomed)), f, g.dir)
		eventstest.Must(t, err)
		return c
	}
	for _, team := range g.teams {
		p := a.start(t, team.family, a.addr)
		for _, f := range team.forms {
			c := add(p, f)
			players, g.seldom[c] = append(players, c), team.seldom
		}
	}
	for _, team := range g.teams {
		if g.tier != quickWithDeaths && g.sections == 0 && !eventstest.Full() {
			break // a session takes longer to expire than a few hundred sections take
		}
		for _, f := range team.killed {
			doomed = append(doomed, add(a.start(t, team.family, a.addr, shortSession), f))
		}
	}
	return players, doomed
}

// run lets the contenders enter and leave, the doomed ones halfway through, and stops
// them.
func (g *game) run(ctx context.Context, t *testing.T, players, doomed []*contender) {
	t.Helper()
	var all, dying sync.WaitGroup
	defer all.Wait()
	live := func(c *contender) {
		if err := g.live(ctx, c); err != nil {
			g.giveUp(err) // await reports the error, once
		}
	}
	all.Go(func() { live(players[0]) })
	g.await(ctx, t, func(r *referee) bool { return len(r.inside) > 0 })
	for _, c := range players[1:] {
		all.Go(func() { live(c) })
	}
	for i, c := range doomed {
		g.after(ctx, t, g.total*(i+1)/(len(doomed)+1))
		dying.Go(func() {
			err := errors.Join(c.ask(endless), c.says(ctx, orderAcquire))
			if err == nil {
				err = g.entered(c, false)
			}
			if err != nil {
				g.giveUp(err)
			}
		})
	}
	dying.Wait()
	g.after(ctx, t, g.total)
	if g.blind != "" { // it enters beside a holder by chance, about once in 200 sections
		const patient = 20
		g.await(ctx, t, func(r *referee) bool { return r.ignored > 0 || r.sections() >= patient*g.total })
	}
	g.await(ctx, t, func(r *referee) bool { return len(r.dead()) == 0 })
	close(g.over)
}

// live lets a contender enter repeatedly until the game is over.
func (g *game) live(ctx context.Context, c *contender) error {
	if err := c.ask(endless); err != nil {
		return err
	}
	for {
		if err := c.says(ctx, orderAcquire); err != nil {
			return err
		}
		if err := g.section(ctx, c); err != nil {
			return err
		}
		if over, err := g.leave(ctx, c); over || err != nil {
			return err
		}
	}
}

// leave makes a contender release its lock and request it again, unless the game is over.
// A contender without a pause requests it before the release is confirmed.
func (g *game) leave(ctx context.Context, c *contender) (over bool, err error) {
	if err := c.order(orderRelease); err != nil {
		return false, err
	}
	if g.seldom[c] == 0 && !g.isOver() {
		return false, errors.Join(c.ask(endless), c.says(ctx, orderRelease))
	}
	if err := errors.Join(c.says(ctx, orderRelease), g.rest(ctx, c)); err != nil {
		return false, err
	}
	if g.isOver() {
		return true, c.do(ctx, orderClose)
	}
	return false, c.ask(endless)
}

func (g *game) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

// section is one critical section, from the acquisition to the release.
func (g *game) section(ctx context.Context, c *contender) error {
	g.silent.Reset(patience)
	if err := g.entered(c, true); err != nil {
		return err
	}
	g.gather(ctx)
	if c.form.downgrades() {
		if err := c.do(ctx, orderShares); err != nil {
			return err
		}
		g.note(func(r *referee) { r.share(c.name) })
		if err := c.do(ctx, orderShare); err != nil {
			return err
		}
	}
	g.note(func(r *referee) { r.leave(c.name) })
	return nil
}

// gathering is the longest time that a contender with a permit waits for all permits to
// be taken.
const gathering = 20 * time.Millisecond

// gather keeps a contender with a permit inside until all permits are taken, so that one
// too many would be noticed. The wait is bounded, because in the end no other contender
// comes. In a queue there is nothing to wait for.
func (g *game) gather(ctx context.Context) {
	select {
	case <-g.when(func(r *referee) bool { return r.permits == 0 || r.taken() >= r.permits }):
	case <-time.After(gathering):
	case <-ctx.Done():
	}
}

// rest waits until a contender's pause is over, or the game is.
func (g *game) rest(ctx context.Context, c *contender) error {
	next := 0
	g.note(func(r *referee) { next = r.sections() + g.seldom[c] })
	select {
	case <-g.when(func(r *referee) bool { return r.sections() >= next }):
	case <-g.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// after waits until that many sections were entered.
func (g *game) after(ctx context.Context, t *testing.T, sections int) {
	t.Helper()
	g.await(ctx, t, func(r *referee) bool { return r.sections() >= sections })
}

func (g *game) await(ctx context.Context, t *testing.T, passed func(*referee) bool) {
	t.Helper()
	select {
	case <-g.when(passed):
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		children, err := g.witness.children(g.nodes)
		t.Fatalf("%v: %d sections; inside %v; nodes %q, %v",
			context.Cause(ctx), g.referee.sections(), g.referee.inside, children, err)
	}
}

// when returns a channel that is closed once the condition holds.
func (g *game) when(holds func(*referee) bool) <-chan struct{} {
	reached := make(chan struct{})
	g.note(func(*referee) { g.awaited[reached] = holds })
	return reached
}

// pass closes the channels of the conditions that hold now.
func (g *game) pass() {
	for reached, holds := range g.awaited {
		if holds(g.referee) {
			close(reached)
			delete(g.awaited, reached)
		}
	}
}

func (g *game) note(what func(*referee)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what(g.referee)
	g.pass()
}

// entered lets the referee judge an entry, and kills the contender unless lives is set.
func (g *game) entered(c *contender, lives bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.bury(); err != nil {
		return err
	}
	_, takes := c.form.permits()
	node, czxid, err := g.witness.nodeOf(g.nodes, c.session, takes)
	if err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	g.referee.enter(entry{contender: c.name, family: c.player.family, form: c.form, node: node, czxid: czxid})
	g.pass()
	if !lives {
		g.referee.kill(c.name)
		g.death[c.name] = time.Now()
		return c.player.process.Kill()
	}
	return nil
}

// bury records which nodes of killed contenders are gone.
func (g *game) bury() error {
	for _, e := range g.referee.dead() {
		there, err := g.witness.exists(e.node)
		if err != nil {
			return err
		}
		if !there {
			g.referee.leave(e.contender)
			g.freed = append(g.freed, fmt.Sprintf("%s's %v", e.family, time.Since(g.death[e.contender]).Round(time.Millisecond)))
		}
	}
	return nil
}

// check checks that every team has had its share and has left no nodes. The contenders
// must have stopped.
func (g *game) check(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.referee
	for _, team := range g.teams {
		least := r.sections() / 4
		if team.seldom > 0 {
			least = r.sections() * len(team.forms) / (5 * team.seldom) // waiting for four times as many sections would take too long
		}
		n := r.entries[team.family]
		eventstest.Expect(t, n >= least, "%s has entered %d times of %d", team.family, n, r.sections())
	}
	for _, dir := range []string{g.nodes, path.Join(g.dir, "locks")} {
		left, err := g.witness.children(dir)
		eventstest.Expect(t, err == nil && len(left) == 0, "left in %s: %q, %v", dir, left, err)
	}
}

// report logs the results, and fails the test for each violation and each inversion.
func (g *game) report(t *testing.T) {
	t.Helper()
	r := g.referee
	t.Logf("%s: %d sections in %v %v, %d violations, %d inversions, %d ignored; killed holders gone after %v",
		g.name, r.sections(), g.took.Round(time.Millisecond), r.entries,
		len(r.violations), len(r.inversions), r.ignored, g.freed)
	for _, wrong := range slices.Concat(head(r.violations), head(r.inversions)) {
		t.Error(wrong)
	}
}

// head returns the first few.
func head(all []string) []string { return all[:min(5, len(all))] }
