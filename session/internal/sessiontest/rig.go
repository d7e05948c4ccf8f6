// Package sessiontest has the basics of the tests of session: a session on a server in
// virtual time, and seats that note what they hear.
package sessiontest

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

// The values that the tests share.
const (
	// Timeout and Tick are chosen so that a session outlives its lease by at least a
	// second: it ends at a multiple of 10 s beyond the timeout, and the lease after 19 s.
	Timeout = 20 * time.Second
	Lease   = Timeout - Timeout/20
	Tick    = 10 * time.Second

	Dir      = "/locks/a"
	Task     = "/tasks/7" // a lock of one node
	TaskNode = "/tasks/a" // another one

	PermitsAt = "/permits" // a semaphore
	QueueAt   = PermitsAt + "/locks"
	TakenAt   = PermitsAt + "/leases"

	OurData = "zkgrant\n" // of a directory that the library has made
)

// Rig is a session on a server of its own, in a bubble.
type Rig struct {
	*testing.T
	Server  *zktest.Server
	Session *session.Session
	Group   *actors.Group
	Start   time.Time // of the server, from which its ticks count

	mu    sync.Mutex
	Heard []events.Event
}

// Bubble runs the test in virtual time on a server without a session.
func Bubble(t *testing.T, test func(*Rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		test(&Rig{T: t, Server: zktest.Start(t, zktest.Tick(Tick)), Group: &actors.Group{}, Start: time.Now()})
	})
}

// InSession is Bubble with a session.
func InSession(t *testing.T, test func(*Rig), options ...session.Option) {
	t.Helper()
	Bubble(t, func(r *Rig) {
		r.Open("", options...)
		test(r)
	})
}

func (r *Rig) Config(options ...session.Option) session.Config {
	r.Helper()
	options = append([]session.Option{
		r.Server.Option(),
		session.OptionFunc(func(c *session.Config) { c.Timeout = Timeout }),
	}, options...)
	return session.NewConfig(options...)
}

func (r *Rig) Servers(chroot string) session.Servers {
	return session.Servers{Hosts: []string{r.Server.Addr()}, Chroot: chroot}
}

func (r *Rig) News(ev events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Heard = append(r.Heard, ev)
}

// Open opens the session. It is closed at the latest when the test has ended.
func (r *Rig) Open(chroot string, options ...session.Option) {
	r.Helper()
	r.Begin(chroot, options...)
	r.Must(r.Session.Ready(context.Background()))
	synctest.Wait()
}

// Begin is Open without waiting for the session.
func (r *Rig) Begin(chroot string, options ...session.Option) {
	r.Helper()
	r.Session = session.Open(r.Servers(chroot), r.Config(options...), r.Group, r.News)
	// Goroutines that are left behind keep the bubble from ending.
	r.Cleanup(func() {
		r.Close(time.Second)
		r.Group.Close()
	})
}

// Close closes the session within the time.
func (r *Rig) Close(grace time.Duration) (gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return r.Session.Close(ctx)
}

// Told returns the types of the session's events so far, as in "Connected Suspended".
func (r *Rig) Told() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return TypesOf(r.Heard)
}

// WantState checks the session's state.
func (r *Rig) WantState(want session.State) {
	r.Helper()
	synctest.Wait()
	if got := r.Session.State(); got != want {
		r.Errorf("session is %v, want %v", got, want)
	}
}

// Settle gives the session the time to reconnect, and to send what has waited.
func (r *Rig) Settle() {
	r.Helper()
	r.Until("the session is connected", func() bool { return r.Session.State() == session.Connected })
	time.Sleep(100 * time.Millisecond) // replies on a resumed connection are held back for a moment
	synctest.Wait()
}

// Until waits in virtual time.
func (r *Rig) Until(what string, cond func() bool) {
	r.Helper()
	began := time.Now()
	for range 100_000 {
		synctest.Wait()
		if cond() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	seen := "there is no session"
	if r.Session != nil {
		seen = fmt.Sprintf("the session is %v, and has told %q", r.Session.State(), r.Told())
	}
	r.Fatalf("still not after %v: %s; %s", time.Since(began), what, seen)
}

// Only returns the session that the server has.
func (r *Rig) Only() int64 {
	r.Helper()
	list := r.Server.Sessions()
	if len(list) != 1 {
		r.Fatalf("%d sessions, want one", len(list))
	}
	return list[0]
}

// Must ends the test on an error of a step that only prepares the next one.
func (r *Rig) Must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// Run is InSession as a subtest.
func Run(t *testing.T, name string, test func(*Rig), options ...session.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) { InSession(t, test, options...) })
}

// Seat is a test's seat, which notes what the session posts to it.
type Seat struct {
	*session.Seat
	Rig  *Rig
	Hook func(recipes.Input) // called by the session, in its own time; may be nil

	Strict bool // it loses its lock when the connection is gone

	Mu     sync.Mutex
	Inputs []recipes.Input
	errs   []error
	read   int // how many of them the test has looked at

	// Only the loop touches these: the node by which a machine would hold the lock, and
	// the one of the latest claim.
	holds, claims string
}

// Seat opens a seat at Dir.
func (r *Rig) Seat() *Seat { return r.SeatAt(session.Place{Dir: Dir}) }

func (r *Rig) SeatAt(p session.Place) *Seat {
	s := &Seat{Seat: r.Session.Seat(p), Rig: r}
	s.Begin()
	synctest.Wait()
	return s
}

// Seated opens a seat at Dir that has read that the session is open.
func (r *Rig) Seated() *Seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: Dir})
}

// SeatedAt is Seated at any place.
func (r *Rig) SeatedAt(p session.Place) *Seat {
	r.Helper()
	s := r.SeatAt(p)
	s.Want("Opened")
	return s
}

// Note takes what the session says. It reports whether a machine would hold its lock
// then.
func (s *Seat) Note(in recipes.Input, err error) (holds bool) {
	s.believe(in)
	s.Mu.Lock()
	s.Inputs = append(s.Inputs, in)
	s.errs = append(s.errs, err)
	hook := s.Hook
	s.Mu.Unlock()
	if hook != nil {
		hook(in)
	}
	return s.holds != ""
}

// Hears has the hook called with every input from now on.
func (s *Seat) Hears(hook func(recipes.Input)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Hook = hook
}

// Fresh returns what has come since the last look.
func (s *Seat) Fresh() []recipes.Input {
	synctest.Wait()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	list := s.Inputs[s.read:]
	s.read = len(s.Inputs)
	return list
}

// LastErr returns the error that came with the latest input.
func (s *Seat) LastErr() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.errs[len(s.errs)-1]
}

// Want checks the types of what has come since the last look.
func (s *Seat) Want(types string) []recipes.Input {
	s.Rig.Helper()
	got := s.Fresh()
	if TypesOf(got) != types {
		s.Rig.Fatalf("the seat is told %+v, want %s", got, types)
	}
	return got
}

// Answer waits for the one answer to a request, and returns it. It passes over news of
// the session that come before it.
func (s *Seat) Answer() recipes.Input {
	s.Rig.Helper()
	var found []recipes.Input
	s.Rig.Until("a request is answered", func() bool {
		for _, in := range s.Fresh() {
			switch in.(type) {
			case recipes.Opened, recipes.Suspended, recipes.Reconnected, recipes.Expired, recipes.LeaseRanOut:
			default:
				found = append(found, in)
			}
		}
		return len(found) > 0
	})
	if len(found) != 1 {
		s.Rig.Fatalf("the request is answered %d times, want once: %+v", len(found), found)
	}
	return found[0]
}

// WantAnswer waits for the answer to a request, and checks it.
func (s *Seat) WantAnswer(want recipes.Input) {
	s.Rig.Helper()
	if in := s.Answer(); in != want {
		s.Rig.Errorf("the request is answered %#v (%v), want %#v", in, s.LastErr(), want)
	}
}

// AnswerOf waits for the answer to a request, which has to be of the type.
func AnswerOf[T recipes.Input](s *Seat) T {
	s.Rig.Helper()
	in := s.Answer()
	answer, ok := in.(T)
	if !ok {
		s.Rig.Fatalf("the request is answered %#v (%v), want %T", in, s.LastErr(), answer)
	}
	return answer
}

// CreateNode makes the first attempt's node and returns its name.
func (s *Seat) CreateNode(epoch recipes.Epoch) events.Name {
	s.Rig.Helper()
	s.Do(recipes.Create{Epoch: epoch, Attempt: 1})
	return AnswerOf[recipes.Created](s).Node
}

// ClaimNode makes the seat a holder of the node.
func (s *Seat) ClaimNode(epoch recipes.Epoch, node string) {
	s.Rig.Helper()
	s.Do(recipes.Claim{Epoch: epoch, Node: events.Name{Text: node}})
	if in, want := s.Answer(), (recipes.Claimed{Epoch: epoch, Fresh: true}); in != want {
		s.Rig.Fatalf("the claim of %s is answered %+v, want %+v", node, in, want)
	}
}

// WriteNothing goes through the quorum and changes nothing.
func (s *Seat) WriteNothing() {
	s.Rig.Helper()
	s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "none"}})
	s.Want("Deleted")
}

// ListNodes lists, and finds the first attempt's node.
func (s *Seat) ListNodes(epoch recipes.Epoch) recipes.Listed {
	s.Rig.Helper()
	s.Do(recipes.List{Epoch: epoch, Attempt: 1})
	return AnswerOf[recipes.Listed](s)
}

// TypesOf names the types of the values without their package.
func TypesOf[T any](list []T) string {
	names := make([]string, len(list))
	for i, v := range list {
		text := fmt.Sprintf("%T", v)
		names[i] = text[strings.LastIndexByte(text, '.')+1:]
	}
	return strings.Join(names, " ")
}
