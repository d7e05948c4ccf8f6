// Command worker is a process that holds locks as ordered, for the tests of the parent
// folder. It must compile against every version that they name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Order is an order to a worker.
type Order struct {
	ID   string // the name of an acquisition or a loop
	Do   string // acquire, release, loop, stop, revoke
	Kind string // kind of the lock
	Path string
}

// News is a report of a worker.
type News struct {
	ID, What  string // granted, lost, done, revoked
	Token     int64
	Abandoned int64  // the token of a holder that crashed
	Data      string // the data of that holder
	Error     string
}

func main() {
	w := &worker{orders: json.NewDecoder(os.Stdin), news: json.NewEncoder(os.Stdout), held: make(map[string]*coordinator.Acquisition), ends: make(map[string]context.CancelFunc)}
	flag.StringVar(&w.name, "name", "", "the name of the worker")
	flag.StringVar(&w.inside, "inside", "", "the folder of the referee")
	servers := flag.String("servers", "", "the servers")
	timeout := flag.Duration("timeout", 10*time.Second, "of the session")
	flag.Parse()
	if err := w.run(*servers, *timeout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", w.name, err)
		os.Exit(1)
	}
}

type worker struct {
	name, inside string
	c            *coordinator.Coordinator
	orders       *json.Decoder

	mu   sync.Mutex // guards news
	news *json.Encoder

	held   map[string]*coordinator.Acquisition // by ID; used by run only
	ends   map[string]context.CancelFunc       // ends of loops by ID; used by run only
	active sync.WaitGroup
}

// run follows orders until its input ends. Then it closes the coordinator, whatever it
// holds.
func (w *worker) run(servers string, timeout time.Duration) error {
	c, err := coordinator.Connect(context.Background(), servers, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(timeout/2))
	if err != nil {
		return err
	}
	w.c = c
	w.tell(News{What: "ready"}, nil)
	err = w.obey()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	for _, stop := range w.ends {
		stop()
	}
	closed := c.Close()
	w.active.Wait()
	return errors.Join(err, closed)
}

func (w *worker) obey() error {
	for {
		var o Order
		if err := w.orders.Decode(&o); err != nil {
			return err
		}
		switch o.Do {
		case "acquire":
			a := w.lock(o).Acquire(context.Background(), data(w.name))
			w.held[o.ID] = a
			w.active.Go(func() { w.watch(o.ID, a) })
		case "release":
			w.held[o.ID].Release()
		case "loop":
			ctx, stop := context.WithCancel(context.Background())
			w.ends[o.ID] = stop
			w.active.Go(func() { w.tell(News{ID: o.ID, What: "done"}, w.loop(ctx, o)) })
		case "stop":
			w.ends[o.ID]()
		case "revoke":
			w.active.Go(func() {
				w.tell(News{ID: o.ID, What: "revoked"}, w.c.Revoke(context.Background(), o.Path, grace))
			})
		default:
			return fmt.Errorf("what is %q?", o.Do)
		}
	}
}

// grace is the grace of a revocation. The holder would not need it: the test checks that
// it keeps the lock until then.
const grace = 100 * time.Millisecond

// Acquirer is a handle of any kind of lock.
type Acquirer interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
}

// permits is the size of a semaphore.
const permits = 2

func (w *worker) lock(o Order) Acquirer {
	switch o.Kind {
	case "mutex":
		return w.c.Mutex(o.Path)
	case "cached":
		return w.c.Mutex(o.Path, cached()...)
	case "detect":
		return w.c.Mutex(o.Path, coordinator.DetectCrash())
	case "revocable":
		return w.c.Mutex(o.Path, coordinator.Revocable())
	case "unfair":
		return w.c.Unfair(o.Path)
	case "read":
		return w.c.ReadWrite(o.Path).Read()
	case "write":
		return w.c.ReadWrite(o.Path).Write()
	case "permit":
		return w.c.Semaphore(o.Path, permits)
	}
	panic("no kind of lock: " + o.Kind)
}

// watch reports what happens to an acquisition.
func (w *worker) watch(id string, a *coordinator.Acquisition) {
	granted, lost := a.Granted(), a.Lost()
	for {
		select {
		case g := <-granted:
			granted = nil
			news := News{ID: id, What: "granted", Token: g.Token}
			if g.Abandoned != nil {
				news.Abandoned, news.Data = g.Abandoned.Token, string(g.Abandoned.Data)
			}
			w.tell(news, nil)
		case l := <-lost:
			lost = nil
			w.tell(News{ID: id, What: "lost"}, l.Err)
		case <-a.Done():
			w.tell(News{ID: id, What: "done"}, a.Err())
			return
		}
	}
}

// loop acquires and releases the lock until ctx ends.
func (w *worker) loop(ctx context.Context, o Order) error {
	lock := w.lock(o)
	for ctx.Err() == nil {
		a := lock.Acquire(ctx)
		g, err := a.Wait(ctx)
		if err == nil {
			if err = w.enter(o, g); err == nil && !a.Valid() {
				err = fmt.Errorf("%s is lost, want it held: %w", o.ID, a.Err())
			}
		}
		a.Release()
		<-a.Done()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// enter puts the holder's file into the lock's folder for a moment, and checks whether
// the others there may hold, too. Each holder creates its file before it checks and
// removes it before it releases, so of two concurrent holders at least one sees the
// other. Meanwhile enter records the Grant.
func (w *worker) enter(o Order, g events.Grant) (err error) {
	folder := filepath.Join(w.inside, strings.ReplaceAll(strings.Trim(o.Path, "/"), "/", "-"))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file := filepath.Join(folder, o.Kind+" "+w.name+" "+o.ID)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	names, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	most := 1
	switch o.Kind {
	case "read": // beside other readers
		most = 0
		names = slices.DeleteFunc(names, func(n os.DirEntry) bool { return !strings.HasPrefix(n.Name(), "write ") })
	case "permit":
		most = permits
	}
	if len(names) > most {
		return fmt.Errorf("beside %s are %v, want %d at most", file, names, most)
	}
	notes, err := os.OpenFile(folder+".grants", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(notes, w.name, o.Kind, g.Token, turn(g)) // one write, so the line is appended whole
	return errors.Join(err, notes.Close())
}

func (w *worker) tell(n News, err error) {
	if err != nil {
		n.Error = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.news.Encode(n) // the test has ended if it no longer listens
}
