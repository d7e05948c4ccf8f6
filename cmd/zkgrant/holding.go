//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// work is what is done while the lock is held.
type work interface {
	// start begins the work. An error ends everything.
	start(grant events.Grant, kind string) error
	// ended is closed when the work has ended by itself. It is nil while that is impossible.
	ended() <-chan struct{}
	// pass deals with a signal.
	pass(sig os.Signal, valid func() bool)
	// stop asks the work to end: the lock was asked back.
	stop()
	// end ends the work, as the lock is lost, and returns when it has ended.
	end()
	// code is the exit code of work that has ended.
	code() int
}

// work holds the lock while the job is done, and with again takes it anew after a loss.
func (w *wanted) work(job work, what []string, again bool) (err error) {
	if err := w.check(); err != nil {
		return err
	}
	signals := listen()
	defer signals.stop()
	c, err := w.open()
	if err != nil {
		return err
	}
	defer func() {
		if closing := c.Close(); closing != nil { // the servers will end the session without it
			w.say(report{Event: "failed", Error: closing.Error(), loud: true}, "giving back: %v", closing)
		}
	}()
	for {
		code, err := w.hold(c, signals, job, what)
		switch {
		case err != nil:
			return err
		case code == codeLost && again:
			continue
		case code == 0:
			return nil
		}
		return &exit{code: code}
	}
}

// hold waits for the lock, does the work while it is held, gives it back, and returns the exit code.
func (w *wanted) hold(c *coordinator.Coordinator, signals *signals, job work, what []string) (int, error) {
	// The kernel takes the end of the thread that started the command for the end of this process, so the thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	lock, kind, err := w.handle(c)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := &holding{wanted: w, job: job, lock: lock.Acquire(ctx, w.acquisition(what)...), began: time.Now()}
	defer h.lock.Release()
	defer w.hide()
	news := c.Events(ctx, coordinator.Passive())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var asked <-chan events.Revoked // only what was started can be stopped
		if h.granted {
			asked = h.lock.Revoked()
		}
		select {
		case grant := <-h.lock.Granted():
			h.hide()
			if !h.lock.Valid() { // this process may have slept
				return w.tooLate("it was not valid any more"), nil
			}
			if err := job.start(grant, kind); err != nil {
				return 0, err
			}
			h.granted, h.began = true, time.Now()

		case <-job.ended():
			valid := h.lock.Valid()
			code := h.outcome(valid)
			if !valid {
				return code, nil
			}
			if h.giveBack(); code == 0 {
				return 0, nil
			}
			return 0, &exit{code: code} // no loss, so no new attempt

		case lost := <-h.lock.Lost():
			return h.halt(lost.Reason), nil

		case <-h.lock.Done():
			if !h.granted {
				return w.notHeld(c, h.lock.Err())
			}
			// The lock is lost, and select took this one of two ready channels.
			return h.halt(cause(h.lock.Err())), nil

		case revoked := <-asked:
			w.say(report{Event: "asked", Path: revoked.Path, loud: true, bad: true}, "%s is asked back", w.name())
			if w.revocable { // Curator's Revoker asks every holder
				job.stop()
			}

		case sig := <-signals.c:
			if h.granted {
				job.pass(sig, h.lock.Valid)
			} else if code := signals.whileWaiting(sig, w.console); code != 0 {
				return code, nil
			}

		case ev, ok := <-news:
			if !ok { // the coordinator is closed, and Done says so
				news = nil
			}
			w.tell(ev)

		case <-tick.C:
			h.showProgress()
		}
	}
}

// holding is one attempt to hold a lock.
type holding struct {
	*wanted

	job     work
	lock    *coordinator.Acquisition
	began   time.Time // when the waiting began, and then the holding
	granted bool
}

// outcome is the exit code of work that has ended by itself. The work's own code counts only if the lock is still valid: this process
// may have slept while the work ended.
func (h *holding) outcome(valid bool) int {
	switch {
	case !h.granted:
		h.say(report{Event: "withdrawn", Path: h.name(), loud: true}, "standard input ended before %s was granted", h.name())
		return h.conflict
	case valid:
		return h.job.code()
	}
	return h.halt("it was not valid any more when the command ended")
}

func (h *holding) giveBack() {
	h.lock.Release()
	<-h.lock.Done()
	held := time.Since(h.began)
	h.say(report{Event: "ended", Path: h.name(), Seconds: held.Seconds()}, "gave %s back after %s", h.name(), since(held))
}

// halt ends the work, as the lock is lost.
func (h *holding) halt(why any) int {
	reason := ""
	if r, ok := why.(interface{ String() string }); ok {
		reason = r.String()
	}
	h.say(report{Event: "lost", Path: h.name(), Reason: reason, loud: true, bad: true}, "LOST %s: %v", h.name(), why)
	h.job.end()
	return codeLost
}

func (h *holding) showProgress() {
	if h.granted {
		return
	}
	waited := since(time.Since(h.began).Truncate(time.Second))
	if ahead, ok := h.lock.Position(); ok {
		h.progress("waiting for %s, %d ahead, %s", h.name(), ahead, waited)
	} else {
		h.progress("waiting for %s, %s", h.servers, waited)
	}
}

// cause is the reason of a loss, or the error if it is of another kind.
func cause(err error) any {
	var lost *coordinator.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return err
}

// notHeld says why the lock was not granted, and returns the exit code if there is no error.
func (w *wanted) notHeld(c *coordinator.Coordinator, err error) (int, error) {
	var lost *coordinator.LostError
	var held *coordinator.HeldError
	switch {
	case errors.As(err, &held):
		return 0, w.taken("%s is held by %s", w.name(), held.Holder.Data)
	case errors.Is(err, coordinator.ErrNotAcquired):
		return 0, w.taken("another process has %s", w.name())
	case errors.Is(err, coordinator.ErrTimeout):
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Ready(now); err != nil { // no server was reached
			return 0, err
		}
		return 0, w.taken("waited too long for %s", w.name())
	case errors.As(err, &lost):
		return w.tooLate(lost.Reason.String()), nil
	default:
		return 0, err
	}
}

// tooLate says that the lock is lost, and returns the exit code.
func (w *wanted) tooLate(reason string) int {
	w.say(report{Event: "lost", Path: w.name(), Reason: reason, loud: true, bad: true}, "LOST %s before anything was started: %s", w.name(), reason)
	return codeLost
}

func (w *wanted) taken(format string, args ...any) error {
	w.say(report{Event: "taken", Path: w.name(), loud: true}, format, args...)
	return &exit{code: w.conflict}
}

// tell reports an event other than the loss.
func (s *settings) tell(ev events.Event) {
	switch ev := ev.(type) {
	case events.Connected:
		s.connected.Store(true)
		s.say(report{Event: "connected", Session: sessionID(ev.Session)}, "connected to %s, session timeout %v", ev.Server, ev.Timeout)
	case events.Queued:
		s.say(report{Event: "queued", Path: ev.Path, Ahead: ev.Ahead}, "waiting for %s, %d ahead", ev.Path, ev.Ahead)
	case events.Requeued:
		s.say(report{Event: "requeued", Path: ev.Path}, "waiting for %s again, the place was lost", ev.Path)
	case events.Grant:
		s.say(report{Event: "granted", Path: ev.Path, Node: ev.Node, Token: ev.Token, Session: sessionID(ev.Session), Seconds: ev.Waited.Seconds(), good: true},
			"granted %s after %s, token %d", ev.Path, since(ev.Waited), ev.Token)
	case events.Suspended:
		left := time.Until(ev.Deadline)
		s.say(report{Event: "suspended", Seconds: left.Seconds()}, "no connection; what is held is good for another %s", since(left))
	case events.Resumed:
		s.say(report{Event: "resumed"}, "connected again")
	case events.SessionExpired:
		s.say(report{Event: "expired", Session: sessionID(ev.Session)}, "the session is over")
	default:
	}
}
