package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// newGroup returns a group that is closed at the end of the test.
func newGroup(t *testing.T) *coordinator.Group {
	t.Helper()
	g := coordinator.NewGroup()
	t.Cleanup(func() {
		g.Close()
		for range g.Events() { // or its goroutine would stay in the bubble for another 100 ms
		}
	})
	return g
}

// contenders returns the contenders' nodes on the server.
func contenders(srv *zktest.Server) []string {
	synctest.Wait()
	return slices.DeleteFunc(srv.Tree(), func(node string) bool {
		_, is := events.ParseName(path.Base(node))
		return !is
	})
}

// storyOf returns the types of the events of these acquisitions, or of all events, as
// words.
func storyOf(all []events.Event, ids ...uint64) string {
	var words []string
	for _, ev := range all {
		if len(ids) == 0 || slices.Contains(ids, ev.AcquisitionID()) {
			words = append(words, strings.TrimPrefix(fmt.Sprintf("%T", ev), "events."))
		}
	}
	return strings.Join(words, " ")
}

// isQuiet checks that the acquisition's own channels are empty.
func isQuiet(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	expectEqual(t, len(a.Granted())+len(a.Lost())+len(a.Revoked()), 0, "what its own channels deliver")
}

// TestGroupStories checks the events of one acquisition, up to its Ended, in a group, the
// event stream and a hook. Only the group's reader takes the Grant.
func TestGroupStories(t *testing.T) {
	gone := errors.New("the caller is gone")
	for name, x := range map[string]struct {
		want string // in the group
		err  error
	}{
		"released":              {"Grant Ended", nil},
		"withdrawn":             {"Ended", coordinator.ErrNotAcquired},
		"context, taken":        {"Grant Ended", nil},
		"context, not taken":    {"Ended", gone},
		"waited for, not taken": {"Ended", gone},
		"waited for, taken":     {"Ended", nil},
		"too late":              {"Ended", coordinator.ErrTimeout},
		"lost":                  {"Grant Lost Ended", coordinator.ErrSessionExpired},
		"lost, not taken":       {"Ended", coordinator.ErrNodeRemoved},
		"lost in a partition":   {"Grant Lost Ended", coordinator.ErrLeaseRanOut},
		"revoked":               {"Grant Revoked Lost Ended", coordinator.ErrRevoked},
		"contended":             {"Grant Contended Ended", nil},
		"refused":               {"Ended", coordinator.ErrPath},
		"coordinator closed":    {"Grant Ended", coordinator.ErrClosed},
		"group closed":          {"Grant Ended", nil},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			heard := &ear{}
			c, g := coordtest.Connect(t, srv, coordinator.WithHooks(heard)), newGroup(t)
			streamed := collect(c.Events(t.Context()))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			option := map[string]coordinator.AcquireOption{"too late": coordinator.MaxWait(time.Second)}[name]
			at := map[bool]string{false: lockPath, true: "no path"}[name == "refused"]
			a := g.Acquire(ctx, c.Mutex(at, coordinator.Revocable()), option)
			synctest.Wait()
			// A Grant that the group's reader does not take is seen by the stream and the
			// hook only.
			all, others := func() []events.Event { return told(g.Events()) }, "Grant "+x.want
			if x.want != "Ended" || name == "refused" {
				all, others = collect(g.Events()), x.want
				synctest.Wait()
			}
			isQuiet(t, a)
			switch name {
			case "released", "withdrawn":
				a.Release()
			case "context, taken":
				cancel(gone)
				time.Sleep(time.Minute)
				a.Release()
			case "context, not taken":
				cancel(gone)
			case "waited for, not taken":
				grant, err := a.Wait(t.Context())
				expect(t, err == nil && grant.ID == a.ID(), "Wait returns %v, %v; want the Grant", grant, err)
				cancel(gone)
			case "waited for, taken":
				_, err := a.Wait(t.Context())
				eventstest.Must(t, err)
				expectEqual(t, storyOf(told(g.Events()), a.ID()), "Grant", "after Wait the group has")
				cancel(gone)
				a.Release()
			case "lost":
				expire(t, srv, c)
			case "lost, not taken":
				eventstest.Must(t, srv.Delete(a.Grant().Node))
			case "lost in a partition":
				srv.Mute(c.SessionID(), true)
				time.Sleep(time.Minute)
				srv.Mute(c.SessionID(), false)
			case "revoked":
				eventstest.Must(t, c.Revoke(t.Context(), lockPath, time.Minute))
			case "contended":
				a.Contended()
				other := c.Mutex(lockPath, coordinator.Revocable()).Acquire(t.Context())
				time.Sleep(time.Minute)
				a.Release()
				other.Release()
			case "coordinator closed":
				eventstest.Must(t, c.Close())
			case "group closed":
				g.Close()
			}
			time.Sleep(time.Minute)
			got := all()
			expectEqual(t, storyOf(got, a.ID()), x.want, "the group has")
			expectEqual(t, storyOf(streamed(), a.ID()), others, "the stream has")
			expectEqual(t, storyOf(heard.all(), a.ID()), others, "the hook has")
			isQuiet(t, a)
			ended := slices.IndexFunc(got, func(ev events.Event) bool { _, is := ev.(events.Ended); return is })
			expect(t, coordtest.IsClosed(a.Done()) && !a.Valid(), "after its Ended it is not done, or valid")
			expectError(t, a.Err(), x.err, "Err")
			expectEqual(t, got[ended].(events.Ended).Err, a.Err(), "the error of Ended")
			expectNone(t, contenders(srv), "contenders in the end")
		})
	}
}

// collect reads the channel until it is closed. It returns a function that returns the
// events read so far.
func collect(from <-chan events.Event) func() []events.Event {
	all := &ear{}
	go func() {
		for ev := range from {
			all.OnEvent(ev)
		}
	}()
	return all.all
}

// TestGroupOfSeveralCoordinators: IDs are unique, events name their session, and events
// of one session do not replace another's for a slow reader. The channel is closed when
// the last coordinator is closed.
func TestGroupOfSeveralCoordinators(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		one, two, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		g := newGroup(t)
		sessions := []int64{one.SessionID(), two.SessionID()}
		a, b := g.Acquire(t.Context(), one.Mutex(lockPath)), g.Acquire(t.Context(), two.Semaphore("/permits", 3))
		stranger := other.Election("/leader").Acquire(t.Context())
		expect(t, a.ID() != b.ID() && b.ID() != stranger.ID() && a.ID() != stranger.ID(),
			"the IDs are %d, %d and %d, want three", a.ID(), b.ID(), stranger.ID())
		synctest.Wait()
		for _, id := range append(sessions, other.SessionID()) {
			srv.Cut(id)
		}
		time.Sleep(time.Second)
		all := told(g.Events())
		expect(t, storyOf(all, a.ID()) == "Grant" && storyOf(all, b.ID()) == "Grant" && storyOf(all, stranger.ID()) == "",
			"the group has %v, want the Grants of its own two acquisitions", all)
		var named []int64
		for _, ev := range all {
			switch ev := ev.(type) {
			case events.Suspended:
				named = append(named, ev.Session)
			case events.Resumed:
				named = append(named, -ev.Session)
			}
		}
		want := []int64{sessions[0], sessions[1], -sessions[0], -sessions[1]}
		expect(t, slices.Equal(slices.Sorted(slices.Values(named)), slices.Sorted(slices.Values(want))),
			"of the sessions the group has %v, want that both were suspended and resumed", all)

		eventstest.Must(t, one.Close())
		expectEqual(t, storyOf(told(g.Events()), a.ID()), "Ended", "of the first one the group has")
		again := g.Acquire(t.Context(), one.Mutex(lockPath))
		expectError(t, again.Err(), coordinator.ErrClosed, "an acquisition of the closed coordinator")
		expectEqual(t, storyOf(told(g.Events()), again.ID()), "Ended", "of that the group has")
		eventstest.Must(t, two.Close())
		ev, open := <-g.Events()
		expect(t, open && ev.AcquisitionID() == b.ID(), "as the last coordinator is closed the group has %#v, want the end", ev)
		ev, open = <-g.Events()
		expect(t, !open, "the group has %#v and is open, want it closed", ev)
		expectError(t, g.Acquire(t.Context(), other.Mutex(lockPath)).Err(), coordinator.ErrClosed, "an acquisition after that")
	})
}

// TestAGroupThatNobodyReads keeps at most three events of each acquisition, and has one
// goroutine. When the group or its coordinator is closed, the channel is closed after 100
// ms, and nothing is left.
func TestAGroupThatNobodyReads(t *testing.T) {
	for name, closes := range map[string]func(*coordinator.Coordinator, *coordinator.Group) error{
		"group":       func(_ *coordinator.Coordinator, g *coordinator.Group) error { g.Close(); return nil },
		"coordinator": func(c *coordinator.Coordinator, _ *coordinator.Group) error { return c.Close() },
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			locks := eventstest.Amount(200, 10_000)
			c, g := coordtest.Connect(t, srv), coordinator.NewGroup()
			before := runtime.NumGoroutine()
			for i := range locks {
				g.Acquire(t.Context(), c.Mutex(fmt.Sprint(lockPath, "/", i%(locks/2))))
			}
			synctest.Wait()
			for range 3 {
				srv.Cut(c.SessionID())
				time.Sleep(time.Second)
			}
			synctest.Wait() // another timer may have run out at the same instant
			more := runtime.NumGoroutine() - before
			expect(t, more <= 2, "%d acquisitions have %d goroutines, want that of the group", locks, more)
			time.Sleep(time.Minute)
			began := time.Now()
			eventstest.Must(t, closes(c, g))
			if name == "group" {
				expectEqual(t, time.Since(began), 0, "Close took")
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			ev, open := <-g.Events()
			expect(t, !open, "the channel has %v, want it closed", ev)
			expectNone(t, contenders(srv), "contenders in the end")
		})
	}
	coordtest.Case(t, "at last", func(t *testing.T, srv *zktest.Server) {
		const locks = 50
		c, g := coordtest.Connect(t, srv), newGroup(t)
		for i := range locks {
			g.Acquire(t.Context(), c.Mutex(fmt.Sprint(lockPath, "/", i%(locks/2)))) // every other one waits
		}
		for range 5 {
			time.Sleep(5 * time.Second)
			eventstest.Must(t, srv.Expire(c.SessionID()))
		}
		time.Sleep(time.Minute)
		g.Close()
		counts := map[uint64]int{}
		for ev := range g.Events() {
			counts[ev.AcquisitionID()]++
		}
		expect(t, counts[0] <= 4 && len(counts) == locks+1, "of the session there are %d events, and %d acquisitions have some", counts[0], len(counts)-1)
		for id, n := range counts {
			expect(t, n <= 4, "of acquisition %d there are %d events, want at most three, and four of the session", id, n)
		}
	})
}

// TestCloseOfAGroupRacesWithAcquire: an acquisition that begins while its group is closed
// ends either way, and the coordinator's Close does not wait for it.
func TestCloseOfAGroupRacesWithAcquire(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		begins := &beginning{asked: make(chan struct{}, 1)}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(begins))
		var ends [2]int
		for i := range eventstest.Amount(4000, 6000) {
			g := coordinator.NewGroup()
			done := make(chan struct{})
			go func() {
				defer close(done)
				<-begins.asked
				begins.spin(begins.lead)
				g.Close()
			}()
			a := g.Acquire(t.Context(), c.Mutex(fmt.Sprint(lockPath, "/", i%3)))
			<-done
			said := ""
			for ev := range g.Events() {
				if ev.AcquisitionID() != 0 {
					said += fmt.Sprintf("%T ", ev)
				}
			}
			<-a.Done()
			late := errors.Is(a.Err(), coordinator.ErrClosed)
			expect(t, late && said == "" || errors.Is(a.Err(), coordinator.ErrNotAcquired) && said == "events.Ended ",
				"Err is %v, and the group has %q; want one Ended, unless the group was closed before", a.Err(), said)
			if late {
				ends[0]++
				begins.lead += 1 + i%50
			} else {
				ends[1]++
				begins.lead -= 1 + i%50
			}
		}
		eventstest.Must(t, c.Close())
		t.Logf("late %d times, in time %d times", ends[0], ends[1])
	})
}

// beginning signals each acquisition as it begins, and delays one side to make the race
// tight.
type beginning struct {
	asked chan struct{}
	lead  int // the acquisition's head start; if negative, the other side's
	spun  atomic.Int64
}

func (b *beginning) OnAcquire(context.Context, hooks.Acquire) {
	b.asked <- struct{}{}
	b.spin(-b.lead)
}

func (b *beginning) spin(times int) {
	for range max(0, times) {
		b.spun.Add(1)
	}
}

// TestGroupProperty plays random sequences with locks of two coordinators in one group,
// whose reader is slow, or stops. For every acquisition, the group delivers at most one
// Grant, then at most one Lost, and one Ended. After a Grant was read, its acquisition
// holds until it is released or lost. Steps also release, and the group is closed at the
// end.
func TestGroupProperty(t *testing.T) {
	stories := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 999), 5, 50).Draw(rt, "steps")
		stops := rapid.IntRange(0, 3).Draw(rt, "stops") == 0
		var broken []string
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { broken = playGroup(t, srv, steps, stops, stories) })
		if len(broken) > 0 {
			rt.Fatal(strings.Join(broken, "\n"))
		}
	})
	t.Logf("%v", stories)
	expect(t, len(stories) >= 3, "the sequences led to %v, want every end", stories)
}

// groupStory matches what a group may deliver for an acquisition, one letter per event.
var groupStory = regexp.MustCompile(`^[QR]*(GR*L?E|E)$`)

// playGroup plays steps. The last digit of each selects what happens, and the other
// digits select the acquisition or coordinator.
func playGroup(t *testing.T, srv *zktest.Server, steps []int, stops bool, stories map[string]int) (broken []string) {
	t.Helper()
	breaks := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
	g := coordinator.NewGroup()
	var all []*coordinator.Acquisition
	byID, said, released := map[uint64]*coordinator.Acquisition{}, map[uint64]string{}, map[uint64]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	forced := false // a session or node that a step ends may be gone before its holder knows
	read := func(ev events.Event) {
		id := ev.AcquisitionID()
		if id == 0 {
			return
		}
		said[id] += fmt.Sprintf("%T", ev)[len("events."):][:1]
		a := byID[id]
		if grant, is := ev.(events.Grant); is {
			if released[id] || !reflect.DeepEqual(grant, a.Grant()) {
				breaks("a Grant came after the Release, or it is %+v and the acquisition's is %+v", grant, a.Grant())
			}
			for _, other := range all {
				if !forced && other != a && other.Valid() && a.Valid() && other.Grant().Path == grant.Path {
					breaks("two hold %s", grant.Path)
				}
			}
		}
	}
	for _, n := range append([]int{0, 10}, steps...) { // one lock of each coordinator, so the group stays open if one is closed
		who := n / 10
		switch n % 10 {
		case 0, 1, 2: // acquire
			a := g.Acquire(ctx, cs[who%2].Mutex(fmt.Sprint(lockPath, "/", who%5), coordinator.Revocable()))
			all, byID[a.ID()] = append(all, a), a
		case 3, 4: // read
			for range who%7 + 1 {
				synctest.Wait()
				if ev, ok, _ := coordtest.HeardSoFar(g.Events()); ok {
					read(ev)
				}
			}
		case 5: // release
			if len(all) > 0 {
				a := all[who%len(all)]
				a.Release()
				released[a.ID()] = true
			}
		case 6: // the waits end
			if who%3 == 0 {
				cancel()
				ctx, cancel = context.WithCancel(t.Context()) //nolint:fatcontext // it is no child of the one before
			}
		case 7: // lose
			forced = true
			if who%2 == 0 {
				if id := cs[who/2%2].SessionID(); id != 0 {
					_ = srv.Expire(id)
				}
			} else if len(all) > 0 {
				if node := all[who%len(all)].Grant().Node; node != "" {
					_ = srv.Delete(node)
				}
			}
		case 8: // revoke
			_ = cs[who%2].Revoke(t.Context(), fmt.Sprint(lockPath, "/", who%5), time.Duration(who)*time.Second)
		case 9: // pass time, or close one
			if who == 99 {
				time.Sleep(time.Second) // Close cannot know of a session that expires as it is called
				eventstest.Check(t, cs[0].Close())
			}
			time.Sleep(time.Duration(who*who) * time.Millisecond)
		}
	}
	g.Close()
	began := time.Now()
	if !stops {
		for ev := range g.Events() {
			read(ev)
		}
		if left := contenders(srv); len(left) > 0 {
			breaks("when the channel is closed %v are left", left)
		}
	}
	for _, a := range all {
		<-a.Done()
	}
	if time.Sleep(200 * time.Millisecond); stops {
		for range g.Events() {
			breaks("the channel is open %v after Close, and nobody has read it", time.Since(began))
		}
	}
	cancel()
	for _, a := range all {
		story, err := said[a.ID()], a.Err()
		switch granted := strings.Contains(story, "G"); {
		case !stops && !groupStory.MatchString(story):
			breaks("the group said %q", story)
		case granted && (errors.Is(err, context.Canceled) || errors.Is(err, coordinator.ErrNotAcquired)):
			breaks("a Grant was read, and Err is %v", err)
		case !stops && !granted && err == nil:
			breaks("no Grant was read, and Err is nil")
		}
		if !stops {
			stories[strings.NewReplacer("Q", "", "R", "").Replace(story)]++
		}
		isQuiet(t, a)
	}
	if left := contenders(srv); len(left) > 0 {
		breaks("%v are left", left)
	}
	return broken
}
