package sessiontest

import (
	"context"
	"maps"
	"net"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Warm leaves the directory empty, and the session knowing that it is ours.
func (r *Rig) Warm() {
	r.Helper()
	s := r.Seated()
	node := s.CreateNode(1)
	s.ListNodes(1)
	s.DeleteNode(node.Text)
	s.Close()
	s.Fresh()
	r.WantData(OurData)
}

// WantData checks the directory's data.
func (r *Rig) WantData(want string) {
	r.Helper()
	if got, _ := r.Server.Data(Dir); string(got) != want {
		r.Errorf("the directory's data are %q, want %q", got, want)
	}
}

// Asked counts the requests that are not pings, by what they ask for.
func (r *Rig) Asked() func() map[zktest.Op]int {
	counts := map[zktest.Op]int{}
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op != zktest.OpPing {
			counts[q.Op]++ // one connection, one request at a time
		}
		return zktest.Pass()
	})
	return func() map[zktest.Op]int {
		synctest.Wait()
		was := counts
		counts = map[zktest.Op]int{}
		return was
	}
}

// WantAsked checks that the server was asked for each of these once, and for nothing
// else.
func (r *Rig) WantAsked(got map[zktest.Op]int, once ...zktest.Op) {
	r.Helper()
	want := map[zktest.Op]int{}
	for _, op := range once {
		want[op] = 1
	}
	if !maps.Equal(got, want) {
		r.Errorf("the server was asked for %v, want %v", got, want)
	}
}

// Admin is a plain client, which does what other clients may do.
func (r *Rig) Admin() *zk.Conn {
	r.Helper()
	conn, news, err := zk.Connect([]string{r.Server.Addr()}, Timeout, zk.WithLogInfo(false),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return r.Server.DialContext(context.Background(), network, address)
		}))
	r.Must(err)
	r.Cleanup(func() {
		conn.Close()
		for range news { // closed when the client's goroutines have ended
		}
	})
	return conn
}

// DenyWriting takes the permission to write the directory's data from all clients.
func (r *Rig) DenyWriting() {
	r.Helper()
	_, err := r.Admin().SetACL(Dir, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
	r.Must(err)
}

// Plant makes nodes for the test to watch.
func (r *Rig) Plant(names ...string) {
	r.Helper()
	for _, name := range names {
		r.Must(r.Server.Create(Dir+"/"+name, nil))
	}
}

// DeleteNode deletes a node of the directory, as another client does.
func (r *Rig) DeleteNode(name string) {
	r.Helper()
	r.Must(r.Server.Delete(Dir + "/" + name))
}

// SetData changes the data of a node of the directory, as another client does.
func (r *Rig) SetData(name string) {
	r.Helper()
	r.Must(r.Server.SetData(Dir+"/"+name, []byte(time.Now().String())))
}

// Watching is a seat that watches a node.
func (r *Rig) Watching(name string) *Seat {
	r.Helper()
	s := r.Seated()
	s.WatchNode(name)
	s.Want("")
	return s
}

// WatchNode watches a node of the directory.
func (s *Seat) WatchNode(name string) { s.Do(recipes.Watch{Epoch: 1, Node: events.Name{Text: name}}) }

// WantGone checks that the node's end, and nothing else, was told once.
func (s *Seat) WantGone(name string) {
	s.Rig.Helper()
	s.WantOnly(recipes.Gone{Epoch: 1, Node: events.Name{Text: name}})
}

// Multis returns a check of how many Multis have come since the call before: at least and
// at most so many. when says in which time that was.
func (r *Rig) Multis() func(least, most int, when string) {
	seen := r.Server.Requests(zktest.OpMulti)
	return func(least, most int, when string) {
		r.Helper()
		synctest.Wait()
		before := seen
		seen = r.Server.Requests(zktest.OpMulti)
		if n := seen - before; n < least || n > most {
			r.Errorf("%d Multis %s, want %d to %d", n, when, least, most)
		}
	}
}

// WantWatches checks how many watches the server has.
func (r *Rig) WantWatches(n int) {
	r.Helper()
	if got := r.Server.Watches(); got != n {
		r.Errorf("the server has %d watches, want %d", got, n)
	}
}

// PermitSeat returns a seat that wants so many permits.
func (r *Rig) PermitSeat(size, permits int32) *Seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: PermitsAt, Size: size, Permits: permits})
}

// Surveys looks, and returns the answer.
func (s *Seat) Surveys(e recipes.Survey) recipes.Surveyed {
	s.Rig.Helper()
	e.Epoch = 1
	s.Do(e)
	return AnswerOf[recipes.Surveyed](s)
}

// Enters takes permits, and returns what the seat hears.
func (s *Seat) Enters(permits int32) recipes.Entered {
	s.Rig.Helper()
	node := s.CreateNode(1).Text
	version := s.Surveys(recipes.Survey{Node: events.Name{Text: node}}).Version
	s.Do(recipes.Enter{Epoch: 1, Node: events.Name{Text: node}, Permits: permits, Version: version})
	in, ok := s.Answer().(recipes.Entered)
	if !ok || len(in.Permits) != int(permits) || !in.Fresh {
		s.Rig.Fatalf("the request for %d permits is answered %+v, want fresh permits", permits, in)
	}
	return in
}

// MakePermits makes the directories of a semaphore.
func (r *Rig) MakePermits(size int32) {
	r.Helper()
	s := r.PermitSeat(size, 1)
	s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: s.Enters(1).Permits[0]}})
	s.Want("Deleted")
	s.Close()
}

// WantPermits checks how many nodes there are in the queue and among the permits.
func (r *Rig) WantPermits(queue, permits int) {
	r.Helper()
	synctest.Wait()
	if q, l := r.Server.Children(QueueAt), r.Server.Children(TakenAt); len(q) != queue || len(l) != permits {
		r.Errorf("queue %v, permits %v; want %d and %d", q, l, queue, permits)
	}
}

// Together runs f in the session's own time. So what f asks for is parked before any of
// it is made.
func (r *Rig) Together(f func()) {
	r.Helper()
	done := make(chan struct{})
	s := &Seat{Seat: r.Session.Seat(session.Place{Dir: "/aside"}), Rig: r}
	s.Begin()
	s.Hears(func(in recipes.Input) {
		if _, overdue := in.(recipes.Overdue); overdue {
			f()
			close(done)
		}
	})
	s.Do(recipes.Revoke{By: actors.MomentOf(time.Now())})
	<-done
	s.Fresh()
	s.Close()
}

// FloorFails has the session learn that it may not write the directory.
func (r *Rig) FloorFails() {
	r.Helper()
	other := r.Seated()
	node := other.Makes(1).Node.Text
	other.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
	other.Want("Deleted")
	other.Close()
}
