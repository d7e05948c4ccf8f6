package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	// timeout and tick are chosen so that a session outlives its lease by at
	// least a second: it ends at a multiple of 10 s beyond the timeout, and
	// the lease after 19 s.
	timeout = 20 * time.Second
	lease   = timeout - timeout/20
	tick    = 10 * time.Second

	dir = "/locks/a"
)

// rig is a session on a server of its own, in a bubble.
type rig struct {
	*testing.T
	srv   *zktest.Server
	s     *session.Session
	group *actors.Group
	start time.Time // of the server, from which its ticks count

	mu    sync.Mutex
	heard []events.Event
}

// bubble runs the test in virtual time on a server without a session.
func bubble(t *testing.T, test func(*rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		test(&rig{T: t, srv: zktest.Start(t, zktest.Tick(tick)), group: &actors.Group{}, start: time.Now()})
	})
}

// inSession is bubble with a session.
func inSession(t *testing.T, test func(*rig), options ...session.Option) {
	t.Helper()
	bubble(t, func(r *rig) {
		r.open("", options...)
		test(r)
	})
}

func (r *rig) config(options ...session.Option) session.Config {
	r.Helper()
	options = append([]session.Option{
		r.srv.Option(),
		session.OptionFunc(func(c *session.Config) { c.Timeout = timeout }),
	}, options...)
	return session.NewConfig(options...)
}

func (r *rig) servers(chroot string) session.Servers {
	return session.Servers{Hosts: []string{r.srv.Addr()}, Chroot: chroot}
}

func (r *rig) news(ev events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, ev)
}

// open opens the session, which is closed at the latest when the test has ended.
func (r *rig) open(chroot string, options ...session.Option) {
	r.Helper()
	s, err := session.Open(context.Background(), r.servers(chroot), r.config(options...), r.group, r.news)
	if err != nil {
		r.Fatal(err)
	}
	r.s = s
	// Goroutines that are left behind keep the bubble from ending.
	r.Cleanup(func() {
		r.s.Close(time.Second)
		r.group.Close()
	})
	synctest.Wait()
}

// told returns the types of the session's events so far, as in "Connected Suspended".
func (r *rig) told() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return typesOf(r.heard)
}

// wantState checks the session's state.
func (r *rig) wantState(want session.State) {
	r.Helper()
	synctest.Wait()
	if got := r.s.State(); got != want {
		r.Errorf("session is %v, want %v", got, want)
	}
}

// settle gives the session the time to reconnect, and to send what has waited.
func (r *rig) settle() {
	r.Helper()
	r.until("the session is connected", func() bool { return r.s.State() == session.Connected })
	time.Sleep(100 * time.Millisecond) // replies on a resumed connection are held back for a moment
	synctest.Wait()
}

// until waits in virtual time.
func (r *rig) until(what string, cond func() bool) {
	r.Helper()
	for range 100_000 {
		synctest.Wait()
		if cond() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Fatalf("it never happens that %s", what)
}

// only returns the session that the server has.
func (r *rig) only() int64 {
	r.Helper()
	list := r.srv.Sessions()
	if len(list) != 1 {
		r.Fatalf("%d sessions, want one", len(list))
	}
	return list[0]
}

// seat is a test's seat, which notes what the session posts to it.
type seat struct {
	*session.Seat
	r    *rig
	hook func(recipes.Input) // called by the session, in its own time; may be nil

	mu     sync.Mutex
	inputs []recipes.Input
	errs   []error
	read   int // how many of them the test has looked at
}

// seat opens a seat at dir.
func (r *rig) seat() *seat { return r.seatAt(session.Place{Dir: dir}) }

func (r *rig) seatAt(p session.Place) *seat {
	s := &seat{Seat: r.s.Seat(p), r: r}
	s.Open(s.note)
	synctest.Wait()
	return s
}

func (s *seat) note(in recipes.Input, err error) {
	s.mu.Lock()
	s.inputs = append(s.inputs, in)
	s.errs = append(s.errs, err)
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(in)
	}
}

// hears has the hook called with whatever comes from now on.
func (s *seat) hears(hook func(recipes.Input)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// fresh returns what has come since the last look.
func (s *seat) fresh() []recipes.Input {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.inputs[s.read:]
	s.read = len(s.inputs)
	return list
}

// lastErr returns the error that came with the latest input.
func (s *seat) lastErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs[len(s.errs)-1]
}

// want checks the types of what has come since the last look.
func (s *seat) want(types string) []recipes.Input {
	s.r.Helper()
	got := s.fresh()
	if typesOf(got) != types {
		s.r.Fatalf("told %+v, want %s", got, types)
	}
	return got
}

// answer waits for the one answer to a request, and returns it. News of the
// session that come before it are passed over.
func (s *seat) answer() recipes.Input {
	s.r.Helper()
	var found []recipes.Input
	s.r.until("a request is answered", func() bool {
		for _, in := range s.fresh() {
			switch in.(type) {
			case recipes.Opened, recipes.Suspended, recipes.Reconnected, recipes.Expired, recipes.LeaseRanOut:
			default:
				found = append(found, in)
			}
		}
		return len(found) > 0
	})
	if len(found) != 1 {
		s.r.Fatalf("answered %d times: %+v", len(found), found)
	}
	return found[0]
}

// create makes the first attempt's node and returns its name.
func (s *seat) create(epoch recipes.Epoch) events.Name {
	s.r.Helper()
	s.Create(recipes.Create{Epoch: epoch, Attempt: 1})
	made, ok := s.answer().(recipes.Created)
	if !ok {
		s.r.Fatal("not created")
	}
	return made.Node
}

// claim makes the seat a holder of the node.
func (s *seat) claim(epoch recipes.Epoch, node string) {
	s.r.Helper()
	s.Claim(recipes.Claim{Epoch: epoch, Node: node})
	if in := s.answer(); in != (recipes.Claimed{Epoch: epoch, Fresh: true}) {
		s.r.Fatalf("claim answered %+v", in)
	}
}

// write goes through the quorum and changes nothing.
func (s *seat) write() {
	s.r.Helper()
	s.Delete(recipes.Delete{Epoch: 1, Node: "none"})
	s.want("Deleted")
}

// list lists, and finds the first attempt's node.
func (s *seat) list(epoch recipes.Epoch) recipes.Listed {
	s.r.Helper()
	s.List(recipes.List{Epoch: epoch, Attempt: 1})
	listed, ok := s.answer().(recipes.Listed)
	if !ok {
		s.r.Fatal("not listed")
	}
	return listed
}

// typesOf names the types of the values without their package.
func typesOf[T any](list []T) string {
	names := make([]string, len(list))
	for i, v := range list {
		text := fmt.Sprintf("%T", v)
		names[i] = text[strings.LastIndexByte(text, '.')+1:]
	}
	return strings.Join(names, " ")
}
