package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
)

// finalHold is how long a lock is held once everything has healed.
const finalHold = 10 * time.Millisecond

// errEnough is the cause when a worker gives up.
var errEnough = errors.New("schedules: enough")

type worker struct {
	random
	world  *world
	client *client
}

// work uses locks until everything has healed, and then takes each lock once more without
// giving up.
func (k *worker) work() {
	for !k.world.healed() {
		life := k.client.get()
		if life == nil {
			k.wait(k.client.timeout / 10)
			continue
		}
		path := k.path()
		if k.oneIn(5) {
			k.do(life, path, k.side())
		} else {
			k.follow(life, path, k.script())
		}
		k.wait(k.pause())
	}
	for _, path := range k.world.paths {
		life := k.client.get()
		for life == nil { // the coordinator is being replaced
			select {
			case <-k.world.abandoned:
				return
			case <-time.After(time.Second):
			}
			life = k.client.get()
		}
		if !k.follow(life, path, script{side: k.side(), permits: k.permits(), hold: finalHold}) && !k.client.mayBeRefused() {
			k.world.failf("%s could not get %s after everything healed", k.client.name, path)
		}
	}
}

// wait passes time. It returns early when everything heals.
func (k *worker) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-k.world.healing:
	}
}

// script says how one acquisition is used. A duration of 0 means never, except for hold.
type script struct {
	side         side
	permits      int
	try          bool
	maxWait      time.Duration
	cancelAfter  time.Duration // when the wait's context ends
	releaseAfter time.Duration // when to release, whether granted or not
	late         time.Duration // nothing is read before this
	deaf         bool          // nothing is ever read
	hold         time.Duration
	context      bool // it also checks its context
	hasty        bool // it does not wait for the end
	downgrade    bool // it becomes a reader
	asksToWrite  bool // it requests the write lock while it reads
	enters       int  // how often it reenters
}

func (k *worker) script() script {
	timeout := k.client.timeout
	s := script{context: k.oneIn(3), hasty: k.oneIn(5)}
	switch k.IntN(6) {
	case 0:
		s.hold = 0
	case 3, 4: // long enough for many faults
		s.hold = timeout + k.upTo(2*timeout)
	case 1:
		s.hold = k.upTo(20 * time.Millisecond)
	case 2:
		s.hold = k.upTo(timeout / 4)
	default:
		s.hold = k.upTo(timeout)
	}
	s.hold = k.brief(s.hold)
	switch k.IntN(12) {
	case 0:
		s.try = true
	case 1:
		s.maxWait = 1 + k.upTo(timeout)
	case 2:
		s.cancelAfter = 1 + k.upTo(timeout)
	case 3:
		s.cancelAfter = 1 // at the very next moment
	case 4:
		s.releaseAfter = 1 + k.upTo(timeout)
	case 5:
		s.late = 1 + k.upTo(timeout)
	case 6:
		s.deaf, s.releaseAfter = true, 1+k.upTo(timeout)
	default: // it waits as long as it takes
	}
	s.side, s.permits = k.side(), k.permits()
	if k.world.recipe == readWrite {
		s.downgrade = s.side == alone && k.oneIn(3) && !k.client.kazoo()
		s.asksToWrite = s.side == shared && s.context && k.oneIn(2)
		s.context = s.context || s.downgrade
	}
	if k.world.again() {
		s.enters = max(0, k.IntN(5)-1)
		s.context = s.context || s.enters > 0
	}
	return s
}

// timer returns a channel that fires after d, or never if d is 0.
func timer(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// follow uses a lock as the script says, and reports whether it was granted.
func (k *worker) follow(life *life, path string, s script) bool {
	return k.see(k.ask(context.Background(), life, path, s))
}

func (k *worker) ask(ctx context.Context, life *life, path string, s script) *record {
	ctx, cancel := context.WithCancelCause(ctx)
	var options []coordinator.AcquireOption
	if s.try {
		options = append(options, coordinator.Try())
	}
	if s.permits > 1 {
		options = append(options, coordinator.Permits(s.permits))
	}
	if k.world.others() {
		options = append(options, coordinator.Data([]byte("another's")))
	}
	if s.maxWait > 0 {
		options = append(options, coordinator.MaxWait(s.maxWait))
	}
	r := newRecord(life, path, s, life.lock(path, s.side).Acquire(ctx, options...))
	r.cancel = cancel
	if s.context {
		r.ctx = r.a.Context(context.Background())
	}
	k.world.logf("%d of %s: acquires %s %+v", r.id, k.client.name, path, s)
	return r
}

// see handles an acquisition until its end, and reports whether it was granted.
func (k *worker) see(r *record) bool {
	w, s := k.world, r.script
	defer r.cancel(nil)
	cancelled, released := timer(s.cancelAfter), timer(s.releaseAfter)
	healing := w.healing
	if w.healed() {
		healing = nil // the final acquisitions keep to their scripts
	}
	if s.late > 0 {
		k.wait(s.late)
	}
	granted := r.a.Granted()
	if s.deaf {
		granted = nil
	}
	var held <-chan time.Time
	var known <-chan struct{} // closed once it is known whether the reader was granted
	for {
		select {
		case grant := <-granted:
			r.granted(grant)
			if w.healed() { // keep it short, because others wait until every worker is done
				s.hold = min(s.hold, finalHold)
			}
			held = time.After(s.hold)
			if s.asksToWrite {
				r.askToWrite()
			}
			if s.enters > 0 {
				k.enter(r, s)
			}
		case lost := <-r.a.Lost():
			r.lost(lost)
		case <-held:
			if held = nil; s.downgrade {
				s.downgrade = false
				if known = k.downgrade(r.ctx, r.tenure, s); !s.hasty {
					break
				}
			}
			if r.release(); s.hasty {
				k.world.crew.Go(func() {
					<-r.a.Done()
					r.done()
				})
				return true
			}
		case <-known:
			known = nil
			r.release()
		case <-released:
			r.release()
		case <-cancelled:
			r.cancelled = true
			r.cancel(errEnough)
		case <-healing: // from now on no worker gives up, or makes others wait
			healing, cancelled = nil, nil
			if held != nil || s.deaf {
				r.release()
			}
		case <-r.a.Done():
			r.done()
			return r.tenure != nil
		}
	}
}

// do is follow with Lock.Do.
func (k *worker) do(life *life, path string, s side) {
	w := k.world
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if k.oneIn(4) {
		time.AfterFunc(1+k.upTo(k.client.timeout), func() { cancel(errEnough) })
	}
	born, hold, linger := time.Now(), k.upTo(k.client.timeout), k.oneIn(4)
	hold = k.brief(hold)
	w.logf("%s: does something under %s (side %d) for %v", k.client.name, path, s, hold)
	failed := errors.New("schedules: failed")
	var t *tenure
	panics := w.detects && k.oneIn(6)
	err := recovered(ctx, life.lock(path, s), func(ctx context.Context, grant events.Grant) error {
		over := make(chan struct{})
		defer close(over)
		t = newTenure(life, path, s, grant, born, func() bool {
			return !coordtest.IsClosed(over) && ctx.Err() == nil
		})
		t.begin()
		if k.world.recipe == readWrite && s == alone && linger && !k.client.kazoo() {
			defer k.downgrade(ctx, t, script{permits: 1, hold: hold, hasty: true})
		}
		select {
		case <-time.After(hold):
			if panics && ctx.Err() == nil {
				t.end("panicked", 0)
				panic(errPanic)
			}
			t.end("function returned", 0)
			return nil
		case <-w.healing:
			t.end("function returned", 0)
			return nil
		case <-ctx.Done():
		}
		var lost *coordinator.LostError
		if errors.As(context.Cause(ctx), &lost) {
			t.end("lost", lost.Reason)
		} else {
			t.end(context.Cause(ctx).Error(), 0)
		}
		if linger {
			k.wait(k.client.timeout)
		}
		return failed
	})
	w.logf("%s: did something under %s: %v", k.client.name, path, err)
	w.count("done under a lock", 1)
	if t != nil {
		w.fateOf(path, s, t.grant, t.how, err)
	}
	w.expect(t != nil || err != nil, "Do did not call its function, and returned no error")
	told := errors.Is(err, failed) && errors.As(err, new(*coordinator.LostError))
	w.expect(t == nil || t.how != "lost" || told, "Do returned %v after a loss", err)
}
