package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// crashPaths are the locks of these histories: a mutex, and a read/write lock.
func crashPaths() []string { return []string{"/locks/told", "/locks/told/rw"} }

// desk has a coordinator, and makes another one when that is closed.
type desk struct {
	connect func() (*coordinator.Coordinator, error)
	renewal sync.Mutex

	mu  sync.Mutex
	now *coordinator.Coordinator
}

func (d *desk) current() *coordinator.Coordinator {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// renew closes the coordinator, whatever its workers hold, and connects another one. There is one renewal at a time.
func (d *desk) renew(t *testing.T) {
	if !d.renewal.TryLock() {
		return
	}
	defer d.renewal.Unlock()
	if c := d.current(); c != nil {
		_ = c.Close() // the servers may be out of reach
	}
	c, err := d.connect()
	if err != nil {
		t.Errorf("connecting anew: %v", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = c
}

// close waits for a renewal.
func (d *desk) close(t *testing.T) {
	d.renewal.Lock()
	defer d.renewal.Unlock()
	if err := d.current().Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// witness takes one lock that reports crashes after the other, and ends in every way.
type witness struct {
	number    int
	desk      *desk
	chronicle *chronicle
	paths     []string
	pace      time.Duration // how long it usually holds a lock at most
	patience  time.Duration // how long it usually waits for a lock at most
	random    *rand.Rand
	round     int
}

// upTo returns a random part of the duration.
func (w *witness) upTo(d time.Duration) time.Duration {
	return time.Duration(1 + w.random.Int64N(int64(d)))
}

// oneIn is true once in n times.
func (w *witness) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// run works while more returns true.
func (w *witness) run(more func(done int) bool) {
	for w.round = 0; more(w.round); {
		w.round++
		w.once(w.paths[w.random.IntN(len(w.paths))])
		<-time.After(w.upTo(w.pace / 4))
	}
}

// begin notes that the worker is about to ask for a lock, and returns the handle.
func (w *witness) begin(path string, shares bool) (*episode, *coordinator.Lock) {
	c := w.desk.current()
	e := &episode{
		chronicle: w.chronicle, path: path, worker: w.number, who: fmt.Sprintf("%d/%d", w.number, w.round),
		shares: shares, asked: w.chronicle.now(), began: c.SessionID(), session: c.SessionID,
	}
	w.chronicle.add(e)
	switch {
	case kindAt(path) != readWrite:
		return e, c.Mutex(path, coordinator.DetectCrash())
	case shares:
		return e, c.ReadWrite(path, coordinator.DetectCrash()).Read()
	default:
		return e, c.ReadWrite(path, coordinator.DetectCrash()).Write()
	}
}

// once runs one acquisition to its end.
func (w *witness) once(path string) {
	e, lock := w.begin(path, kindAt(path) == readWrite && w.oneIn(3))
	if w.oneIn(3) {
		e.over(w.do(lock, e))
		return
	}
	e.over(w.acquire(lock, e))
}

// options are those of the next acquisition.
func (w *witness) options(e *episode) []coordinator.AcquireOption {
	options := []coordinator.AcquireOption{coordinator.WithData([]byte(e.who))}
	if w.oneIn(4) {
		options = append(options, coordinator.WithMaxWait(w.upTo(w.patience)))
	}
	return options
}

// stay is how long the worker holds the lock this time.
func (w *witness) stay() time.Duration {
	if w.oneIn(12) {
		return w.upTo(6 * w.pace)
	}
	return w.upTo(w.pace)
}

// acquire runs an acquisition from Acquire to Done, and returns its end.
func (w *witness) acquire(lock *coordinator.Lock, e *episode) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := lock.Acquire(ctx, w.options(e)...)
	granted := a.Granted()
	var look, giveUp, enough <-chan time.Time
	if w.oneIn(4) {
		giveUp = time.After(w.upTo(w.patience))
	}
	if w.oneIn(4) { // the Grant waits for the worker, or is taken back
		granted, look = nil, time.After(w.upTo(w.patience))
	}
	for {
		select {
		case <-look:
			granted = a.Granted()
		case grant := <-granted:
			e.granted(grant)
			giveUp, enough = nil, time.After(w.stay())
		case <-giveUp:
			if giveUp = nil; w.oneIn(2) {
				cancel()
				break
			}
			a.Release()
		case <-enough:
			e.ends()
			a.Release()
		case <-a.Done():
			select {
			case grant := <-a.Granted():
				e.granted(grant)
			default:
			}
			return a.Err()
		}
	}
}

// errBug is what a function under a lock panics with.
var errBug = errors.New("histories: panic")

// do runs a function under the lock that returns or panics, and returns the end.
func (w *witness) do(lock *coordinator.Lock, e *episode) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.upTo(2*w.patience))
	defer cancel()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			panic(r)
		}
	}()
	return lock.Do(ctx, func(ctx context.Context, grant events.Grant) error {
		e.granted(grant)
		done := ctx.Done()
		if w.oneIn(3) { // a worker that does not listen
			done = nil
		}
		select {
		case <-time.After(w.stay()):
		case <-done:
		}
		e.ends()
		if w.oneIn(4) {
			panic(errBug)
		}
		return nil
	}, w.options(e)...)
}

// chronicle is what all workers have seen. It is safe for concurrent use.
type chronicle struct {
	*history // for its clock, its notes, and the sessions that were ended by force

	grants   atomic.Int64
	mu       sync.Mutex
	episodes []*episode
}

func (c *chronicle) add(e *episode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.episodes = append(c.episodes, e)
}

// episode is one acquisition. Only its worker writes it.
type episode struct {
	chronicle *chronicle
	path      string
	worker    int
	who       string
	shares    bool

	began, ended int64 // the session when it asked, and when it was over; 0: none
	asked        int64
	read         int64 // when the Grant was read; 0: never
	left         int64 // when it was about to release or to panic; 0: never
	done         int64
	session      func() int64 // of its coordinator

	grant events.Grant
	err   error
}

func (e *episode) granted(grant events.Grant) {
	e.grant, e.read = grant, e.chronicle.now()
	e.chronicle.grants.Add(1)
}

func (e *episode) ends() { e.left = e.chronicle.now() }

func (e *episode) over(err error) { e.err, e.ended, e.done = err, e.session(), e.chronicle.now() }

// crashed tells whether the holder has certainly ended otherwise than by a release.
func (e *episode) crashed() bool {
	var lost *coordinator.LostError
	return errors.As(e.err, &lost) || errors.Is(e.err, coordinator.ErrClosed) || errors.Is(e.err, errBug)
}
