//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/nested"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/textfile"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// work is what is done while the lock is held. Its methods do not block, but end may take
// a moment.
type work interface {
	// start begins the work. After an error, no work was done, unless it is a
	// mayHaveBegunError.
	start(grant events.Grant, kind string, terms terms) error
	// renew reports until when the lock is safe.
	renew(lease time.Time)
	// ended is closed once the work has ended. It may be nil until the work was started.
	ended() <-chan struct{}
	// late reports whether the work was killed because a renewed lease did not reach it
	// in time.
	late() bool
	// pass handles a signal, and reports whether it reached the work.
	pass(sig os.Signal, valid func() bool) bool
	// halts receives the signal that has halted the work.
	halts() <-chan syscall.Signal
	// halted handles such a halt.
	halted(by syscall.Signal, valid func() bool)
	// ask asks the work to end.
	ask()
	// kill ends the work.
	kill()
	// empty reports whether nothing is left of the work.
	empty() bool
	// left returns the processes that are left of the work, if they are visible.
	left() []int
	// end returns how the work ended. It is called once nothing is left of the work, and
	// not after a loss.
	end() duty.End
	// code returns the exit code of the ended work.
	code() int
	interrupted() bool
	// reset forgets the work, so that it can be started again.
	reset()
}

// errTooLate is returned by start if the lease had run out, so nothing was started.
var errTooLate = errors.New("the lease ran out")

// mayHaveBegunError is returned by start if the work may have begun.
type mayHaveBegunError struct{ error }

// terms are the terms on which the lock is held.
type terms struct {
	grace, timeout time.Duration
	lease          func() time.Time
}

// work holds the lock while the job is done. what describes the job to every client of
// the servers, so it must not contain arguments, which may be secret.
func (w *wanted) work(job work, what string) (err error) {
	w.last.Path = w.name()
	defer func() { w.writeFigures(err) }() // deferred first, so it runs last: the lock is released by then
	if err := w.check(); err != nil {
		return err
	}
	// Nobody receives signals while files are read, and a file system may not answer. So
	// until then, they end this process.
	options, err := w.options()
	if err != nil {
		return err
	}
	signals := listen()
	defer w.orphans.reap()()
	w.manager = findManager(w.console)
	defer job.reset()
	c, err := coordinator.Open(w.servers, append(options, coordinator.WithHooks(w))...)
	if err != nil {
		return err
	}
	w.warnOfOpenNodes()
	defer func() {
		w.manager.close()
		if closing := c.Close(); closing != nil { // the session will time out
			w.say(report{Event: "failed", Error: closing.Error(), loud: true}, "releasing the lock: %s", plainly(closing))
		} else if w.gave { // the servers have confirmed it
			w.say(report{Event: "ended", Path: w.name(), Seconds: w.last.Held.Seconds()}, "released %s after %s", w.name(), since(w.last.Held))
		}
	}()
	for {
		code, err := w.hold(c, signals, job, what)
		switch {
		case err != nil:
			return err
		case code == codeLost && w.again && !w.stopped && !w.left:
			job.reset()
			w.writeFigures(&exit{code: code})
			continue
		case code == 0:
			return nil
		}
		return &exit{code: code}
	}
}

// OnEvent records the session timeout that the servers have granted.
func (w *wanted) OnEvent(ev events.Event) {
	if ev, ok := ev.(events.Connected); ok {
		w.granted.Store(int64(ev.Timeout))
	}
}

// hold waits for the lock, does the work while it is held, releases it, and returns the
// exit code.
func (w *wanted) hold(c *coordinator.Coordinator, signals *signals, job work, what string) (int, error) {
	lock, kind, err := w.handle(c)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	news := c.Events(ctx) // subscribe before the first event
	began := time.Now()   // before the acquisition begins, whose MaxWait counts from then
	h := &holding{
		wanted: w, job: job, lock: lock.Acquire(ctx, w.acquisition(what)...), began: began,
		wake: time.NewTimer(time.Second), clock: sinceBoot,
	}
	defer h.wake.Stop()
	w.last = textfile.Run{Path: w.name()}
	defer h.account()
	defer h.lock.Abandon() // does nothing after a Release
	defer w.hide()
	outer, looks, looked := nested.Outer(os.Environ()), false, make(chan error, 1)
	refused := make(chan error, 1)
	go func() { refused <- c.Ready(ctx) }()
	for {
		ended := job.ended()
		var asked <-chan events.Revoked // only work that was started can be stopped
		if h.granted {
			if code, over, err := h.act(); over {
				return code, err
			}
			asked = h.lock.Revoked()
			if !h.duty.Ended.IsZero() {
				ended = nil // now wait for the rest of its group
			}
		} else {
			// Do not wait for the Grant with a grace that is too long for the session: a
			// contender that cannot use the lock only delays others.
			if _, err := h.graceOf(h.sessionTimeout()); err != nil {
				return 0, err
			}
			h.showProgress()
			h.wake.Reset(time.Second)
		}
		h.manager.turn(h.notice(false))
		done := h.lock.Done()
		if h.duty.Lost {
			done = nil // it stays closed while the command ends
		}
		select {
		case grant := <-h.lock.Granted():
			h.hide()
			h.out.flush(time.Second / 10) // the command may use the same terminal
			if !h.lock.Valid() {          // this process may have been paused
				h.leave(duty.NotBegun)
				return w.tooLate("it was no longer valid"), nil
			}
			if err := h.begin(grant, kind); err != nil {
				end := duty.NotBegun
				if errors.As(err, new(mayHaveBegunError)) {
					end = duty.Broken
				}
				h.leave(end)
				if errors.Is(err, errTooLate) {
					return w.tooLate(err.Error()), nil
				}
				return 0, err
			}

		case <-ended:
			if !h.granted {
				h.say(report{Event: "withdrawn", Path: h.name(), loud: h.conflict != 0}, "standard input ended before %s was granted", h.name())
				return h.conflict, nil
			}
			if h.duty.Ended = h.clock(); job.late() {
				h.lose(events.ReasonLeaseRanOut)
			}

		case lost := <-h.lock.Lost():
			h.lose(lost.Reason)

		case <-done:
			if !h.granted {
				return w.notHeld(c, h.lock.Err())
			}
			// The lock is lost, and select happened to pick this channel.
			h.lose(cause(h.lock.Err()))

		case revoked := <-asked:
			if w.revocable { // Curator's Revoker asks every holder
				h.duty.Revoked, h.duty.Due = true, h.onClock(revoked.Deadline)
				code, over, err := h.act() // the signal goes out before the report
				h.sayAsked(revoked)
				if over {
					return code, err
				}
				continue
			}
			h.sayAsked(revoked)

		case sig := <-signals.c:
			if h.granted {
				h.pass(sig)
			} else if code := signals.whileWaiting(sig, w.console); code != 0 {
				return 0, &exit{code: code, interrupted: sig == syscall.SIGINT}
			}

		case by := <-job.halts():
			job.halted(by, h.keeps)

		case ev, ok := <-news:
			if !ok { // the coordinator is closed, which Done reports
				news = nil
			}
			if _, ok := ev.(events.Grant); !ok { // begin reports the Grant once it has handled it
				w.tell(ev)
			}
			if _, ok := ev.(events.Queued); ok && len(outer) > 0 && !looks {
				looks = true
				go func(session int64) { looked <- w.inTheWay(ctx, lock, session, outer) }(c.SessionID())
			}

		case err := <-refused:
			// A server refuses the identity, and only an operator can change that. Once the
			// lock is granted, another server has accepted it.
			if err != nil && !h.granted {
				return 0, err
			}

		case err := <-looked:
			if looks = false; err != nil && !h.granted {
				return 0, err
			}

		case <-h.wake.C:
		case <-h.manager.due():
			h.manager.beat = true
		}
	}
}

// inTheWay returns an error if a lock that an outer zkgrant holds is in the way. The wait
// would be a deadlock: the outer zkgrant holds its lock until this process ends.
func (w *wanted) inTheWay(ctx context.Context, lock acquirer, session int64, outer []nested.Node) error {
	queue, err := lock.Queue(ctx)
	if err != nil {
		return nil //nolint:nilerr // let the wait continue and report its own errors
	}
	contender := nested.Contender{Session: session, Reads: w.kind == "read", Permits: w.permits, Size: w.size}
	if node, is := contender.InTheWay(queue, outer); is {
		return fmt.Errorf("%s would wait for itself: the zkgrant that started this command holds %s", w.name(), node)
	}
	return nil
}

// holding is one attempt to hold a lock.
type holding struct {
	*wanted

	job     work
	lock    *coordinator.Acquisition
	began   time.Time // start of the wait, and after the grant, of the holding
	granted bool
	duty    duty.Duty   // valid once granted; its times are those of clock
	lease   time.Time   // the library's deadline from which duty.Lease was computed
	reason  any         // for the loss
	wake    *time.Timer // fires when the duty or the progress is due

	// clock is the supervisor's, which continues while the machine is suspended: the
	// library's deadlines count that time, too.
	clock func() time.Time
}

// onClock converts a time to the clock of the duty. The zero time stays as it is.
func (h *holding) onClock(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return h.clock().Add(time.Until(at))
}

// begin starts the work.
func (h *holding) begin(grant events.Grant, kind string) error {
	timeout := h.sessionTimeout()
	grace, err := h.graceOf(timeout)
	if err != nil {
		return err
	}
	lease, granted := h.lock.Deadline(), time.Now()
	until := h.onClock(lease)
	if err := h.job.start(grant, kind, terms{grace, timeout, h.lock.Deadline}); err != nil {
		return err
	}
	h.last.Waited = granted.Sub(h.began)
	h.granted, h.began = true, granted
	h.tell(grant)
	h.lease, h.duty = lease, duty.Duty{Grace: grace, Timeout: timeout, Leaves: h.leaves, Lease: until}
	if h.minHold > 0 {
		h.duty.Until = h.onClock(granted.Add(h.minHold))
	}
	h.manager.turn(h.notice(false)) // the work may have ended already, and a unit must have been ready
	return nil
}

// act carries out what the duty demands. over reports whether the work has ended, and the
// lock with it.
func (h *holding) act() (code int, over bool, err error) {
	// Read the deadline before the clock, since this process may be halted in between.
	if deadline := h.lock.Deadline(); !deadline.IsZero() && !deadline.Equal(h.lease) {
		h.lease, h.duty.Lease = deadline, h.onClock(deadline)
		if !h.duty.GivenUp() { // after that, a renewed lease comes too late
			h.job.renew(deadline)
		}
	}
	h.duty.Empty = h.duty.Done() || h.job.empty()
	now := h.clock()
	if h.duty.Empty && h.duty.Ended.IsZero() {
		h.duty.Ended = now
	}
	if over := h.duty.Empty || h.leaves && !h.duty.Ended.IsZero(); over && !h.duty.Done() && !h.duty.GivenUp() && !h.lock.Valid() {
		reason := any("it was no longer valid when the command ended")
		if !h.clock().Before(h.duty.Lease) { // the supervisor was first, or this process was paused
			reason = events.ReasonLeaseRanOut
		}
		h.lose(reason)
	}
	do, again := h.duty.Next(now)
	for _, act := range do {
		switch act {
		case duty.Ask:
			began := time.Now()
			h.job.ask()
			h.duty.Took = time.Since(began)
		case duty.Kill:
			h.job.kill()
		case duty.Lose:
			h.sayLost()
		case duty.Leave:
			left := h.job.left()
			h.say(report{Event: "failed", Path: h.name(), Error: "still running", Processes: left, loud: true, bad: true},
				"KILL has not ended %s, which may keep running WITHOUT the lock %s", processes(left), h.name())
			h.left = true
			return codeLost, true, nil
		case duty.Remind:
			h.say(report{Event: "outlived", Path: h.name(), Processes: h.job.left(), loud: true},
				"the command has ended, but %s stays held for %s that it started; see --release-on-exit", h.name(), processes(h.job.left()))
		case duty.Stay:
			h.say(report{Event: "stays", Path: h.name(), Seconds: h.duty.Until.Sub(now).Seconds()},
				"the command has ended, and %s stays held for another %s", h.name(), since(h.duty.Until.Sub(now)))
		case duty.Release:
			h.manager.turn(h.notice(true))
			code, err := h.outcome()
			return code, true, err
		}
	}
	h.wake.Reset(min(again.Sub(h.clock()), h.look(now)))
	return 0, false, nil
}

// look returns how long to wait before checking again whether the lease was renewed and
// whether the group is empty.
func (h *holding) look(now time.Time) time.Duration {
	const often = 10 * time.Millisecond
	rarely := min(h.duty.Timeout/10, time.Second)
	switch {
	case h.duty.GivenUp():
		return often
	case !h.duty.Ended.IsZero(): // processes may outlive the command for days
		return min(max(now.Sub(h.duty.Ended)/10, often), rarely)
	}
	return rarely
}

// pass forwards a signal to the work.
func (h *holding) pass(sig os.Signal) {
	now := h.clock()
	switch {
	case !h.duty.Done():
		if !h.job.pass(sig, h.keeps) {
			return // the signal did not arrive, so it ends nothing
		}
	case sig == syscall.SIGTSTP && standing().Watched():
		halt(h.console)
	}
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT:
		h.stopped = true
		h.duty.Signaled(false, now)
	case syscall.SIGHUP, syscall.SIGQUIT:
		h.duty.Signaled(true, now)
	}
}

// keeps reports whether the lock is held and not given up.
func (h *holding) keeps() bool { return h.lock.Valid() && !h.duty.GivenUp() }

// processes formats PIDs for a message.
func processes(pids []int) string {
	switch len(pids) {
	case 0:
		return "processes"
	case 1:
		return fmt.Sprintf("process %d", pids[0])
	}
	return "processes " + strings.Trim(fmt.Sprint(pids), "[]")
}

// lose records that the library has reported a loss.
func (h *holding) lose(reason any) { h.duty.Lost, h.reason = true, reason }

// outcome releases or abandons the lock, depending on how the work has ended, and returns
// the exit code. The work's own code counts if the work ended before the lock was lost.
func (h *holding) outcome() (int, error) {
	if !h.duty.Done() {
		return codeLost, nil
	}
	code, end := h.job.code(), h.job.end()
	h.job.reset() // with --release-on-exit, other processes of the group may be alive
	h.leave(end)
	h.gave, h.last.Held, h.last.Ran = !h.duty.GivenUp(), time.Since(h.began), end == duty.Done
	if code == 0 {
		return 0, nil
	}
	return 0, &exit{code: code, interrupted: h.job.interrupted()} // not a loss, so no new attempt
}

// account records how long the attempt has waited or held.
func (h *holding) account() {
	switch took := time.Since(h.began); {
	case !h.granted:
		h.last.Waited = took
	case h.last.Held == 0: // a loss
		h.last.Held = took
	}
	h.last.Lost = h.last.Lost || h.duty.GivenUp()
}

// leave releases the lock or abandons it, depending on how the work has ended.
func (h *holding) leave(end duty.End) {
	if end.Releases(h.lock.Grant().Abandoned != nil) {
		h.lock.Release()
	} else {
		h.lock.Abandon()
	}
}

func (h *holding) sayAsked(revoked events.Revoked) {
	h.say(report{Event: "asked", Path: revoked.Path, loud: true, bad: true}, "%s is being revoked", h.name())
}

// sayLost reports that the lock is lost, or was given up just before that.
func (h *holding) sayLost() {
	why := h.reason
	switch {
	case why != nil:
	case h.duty.Overdue():
		why = events.ReasonRevoked
	case h.clock().Before(h.duty.Lease):
		why = soon{}
	default:
		why = events.ReasonLeaseRanOut
	}
	reason := ""
	if r, ok := why.(interface{ String() string }); ok {
		reason = r.String()
	}
	h.say(report{Event: "lost", Path: h.name(), Reason: reason, loud: true, bad: true}, "LOST %s: %v", h.name(), why)
}

// soon is a reason that the library does not have: the lease is about to run out, and the
// command needs the remaining time to end.
type soon struct{}

func (soon) String() string { return "lease runs out" }

func (h *holding) showProgress() {
	waited := since(time.Since(h.began).Truncate(time.Second))
	if ahead, ok := h.lock.Position(); ok {
		h.progress("waiting for %s, %d ahead, %s", h.name(), ahead, waited)
	} else {
		h.progress("waiting for %s, %s", h.servers, waited)
	}
}

// cause returns the reason for a loss, or err itself if it is not a LostError.
func cause(err error) any {
	var lost *coordinator.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return err
}

// notHeld reports why the lock was not granted. It returns the exit code, or an error.
func (w *wanted) notHeld(c *coordinator.Coordinator, err error) (int, error) {
	var lost *coordinator.LostError
	var held *events.HeldError
	switch {
	case errors.As(err, &held):
		return 0, w.taken("%s is held by %s", w.name(), cmp.Or(string(held.Holder.Data), withoutData))
	case errors.Is(err, coordinator.ErrNotAcquired):
		return 0, w.taken("another process has %s", w.name())
	case errors.Is(err, coordinator.ErrTimeout):
		most, _ := w.most()
		silent := fmt.Errorf("no server answered within %v", most)
		now, cancel := context.WithCancelCause(context.Background())
		cancel(silent)
		if err := c.Ready(now); err != nil {
			return 0, err
		}
		if w.tries() { // a try does not queue, so only the servers can take so long
			return 0, fmt.Errorf("%s: %w", w.servers, silent)
		}
		return 0, w.taken("waited too long for %s", w.name())
	case errors.As(err, &lost):
		return w.tooLate(lost.Reason.String()), nil
	default:
		return 0, err
	}
}

// tooLate reports that the lock was lost before the start, and returns the exit code.
func (w *wanted) tooLate(reason string) int {
	w.last.Lost = true
	w.say(report{Event: "lost", Path: w.name(), Reason: reason, loud: true, bad: true}, "LOST %s before anything was started: %s", w.name(), reason)
	return codeLost
}

func (w *wanted) taken(format string, args ...any) error {
	w.say(report{Event: "taken", Path: w.name(), loud: w.conflict != 0}, format, args...) // --conflict-code 0 declares that it is not a failure
	return &exit{code: w.conflict}
}

// tell reports events other than a loss.
func (s *settings) tell(ev events.Event) {
	switch ev := ev.(type) {
	case events.Connected:
		s.connected.Store(true)
		s.say(report{Event: "connected", Session: sessionID(ev.Session)}, "connected to %s, session timeout %v", ev.Server, ev.Timeout)
	case events.Queued:
		s.say(report{Event: "queued", Path: ev.Path, Ahead: ev.Ahead}, "waiting for %s, %d ahead", ev.Path, ev.Ahead)
	case events.Requeued:
		s.say(report{Event: "requeued", Path: ev.Path}, "queued again for %s, because its place was lost", ev.Path)
	case events.Grant:
		s.say(report{Event: "granted", Path: ev.Path, Node: ev.Node, Token: ev.Token, Session: sessionID(ev.Session), Seconds: ev.Waited.Seconds(), good: true},
			"granted %s after %s, token %d", ev.Path, since(ev.Waited), ev.Token)
	case events.Suspended:
		left := time.Until(ev.Deadline)
		s.say(report{Event: "suspended", Seconds: left.Seconds()}, "no connection; held locks stay valid for another %s", since(left))
	case events.Resumed:
		s.say(report{Event: "resumed"}, "reconnected")
	case events.SessionExpired:
		s.say(report{Event: "expired", Session: sessionID(ev.Session)}, "the session has expired")
	default:
	}
}
