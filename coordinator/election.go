package coordinator

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Election is a handle for an election: a mutex of which whoever holds it leads, and says who it is. It holds nothing, may
// be used any number of times, and from any goroutine.
type Election struct{ lock *Lock }

// Election returns a handle for the election at the path. Candidates lead one after the other, in the order in which
// ZooKeeper accepted them, each until it resigns or its term is lost; one that leaves before its turn changes nothing for the
// others. All that is promised of a mutex holds for a term, which is an [Acquisition]: that its end is told in time, so
// nobody leads beside another, and that its token is greater than those of all terms before.
//
// On the wire it is a mutex, so Curator's LeaderSelector can campaign beside it (its LeaderLatch cannot, whose nodes bear other names), and
// with [AsKazoo] kazoo's Election. With [Reentrant] whoever leads may campaign once more with the context of its term, and has another
// term at once, with the same node; without, that is [ErrDeadlock].
func (c *Coordinator) Election(path string, options ...LockOption) *Election {
	cfg := lockConfigOf(options)
	return &Election{&Lock{c: c, path: path, family: familyElection.as(cfg), rule: recipes.Mutex{Kazoo: cfg.kazoo}, cfg: cfg}}
}

// Path returns the path that the handle was made with.
func (e *Election) Path() string { return e.lock.path }

// Campaign makes a candidate and returns at once, as [Lock.Acquire] does: the Grant says that it leads, Lost that it does not
// any more, and Release resigns, or withdraws the candidate. [WithData] is what observers are told of it
// once it leads, an address for instance, until it says something else with [Election.Proclaim].
func (e *Election) Campaign(ctx context.Context, options ...AcquireOption) *Acquisition {
	return e.lock.acquire(ctx, configOf(options))
}

// Terms campaigns, and yields the term when it has begun: its Grant has been taken, and [Acquisition.Grant] says which. The
// loop's body learns of the term's end as ever, by [Acquisition.Context], Lost or Valid. When the body is done with it, by
// whichever way it leaves, the term is released. Until then its node stays, also after a loss, as with [Lock.Do]: only the
// body knows when its work has stopped, and as long as the session lives nobody else leads before. So a body must not wait for
// Done after a loss, and [Coordinator.Close] waits for it as for a function in Do. Then it campaigns again, as one who has just
// come: behind all who wait. So a body leads until it has lost the term or does not want to lead any more; who wants
// to resign and remain a candidate goes on with the loop, and who does not leaves it, with break.
//
//	for term, err := range c.Election("/service/leader").Terms(ctx, coordinator.WithData(address)) {
//		if err != nil {
//			return err
//		}
//		lead(term.Context(ctx), term.Grant().Token)
//	}
//
// ctx bounds the waiting, as with Campaign, and not a term. If it ends, its cause is yielded, with a nil acquisition;
// so is every error with which a campaign ends, a lost term aside, such as [ErrClosed], [ErrNoAuth] or what is wrong with
// the path or the options. That is the last thing yielded, so the code behind the loop is reached by leaving it, and not by
// an error that nobody has seen. A term that was lost before it could be yielded is no error, and another campaign follows.
//
// Before it campaigns again it waits for the servers' answer to the release. If they refuse it the node stays until the session
// ends, and what they said is yielded like an error of a campaign. Behind a break the log alone tells of it.
//
// Each loop over it is a candidate of its own.
func (e *Election) Terms(ctx context.Context, options ...AcquireOption) iter.Seq2[*Acquisition, error] {
	return func(yield func(*Acquisition, error) bool) {
		for e.term(ctx, configOf(options), yield) {
		}
	}
}

// term campaigns once and has the body lead. It tells whether to go on.
func (e *Election) term(ctx context.Context, cfg acquireConfig, yield func(*Acquisition, error) bool) (more bool) {
	cfg.keep = true // only the body knows when its work has stopped
	a := e.lock.acquire(ctx, cfg)
	defer a.crash() // if the body panics
	_, err := a.granting()
	var lost *LostError
	if err == nil {
		more = yield(a, nil)
	}
	a.Release()
	switch {
	case err == nil:
		return more && e.goesOn(ctx, a, yield)
	case ctx.Err() != nil: // comes before the loss: the cause may be that of another lock, and would be one for ever
		yield(nil, context.Cause(ctx))
		return false
	case errors.As(err, &lost):
		return true // it was granted for so short a time that nobody could lead
	default:
		yield(nil, err)
		return false
	}
}

// goesOn tells whether to campaign again behind a term. If the servers have refused to remove its node it yields that instead: the
// candidate would wait behind that node.
func (e *Election) goesOn(ctx context.Context, term *Acquisition, yield func(*Acquisition, error) bool) bool {
	end := term.aftermath()
	var lost *LostError
	switch {
	case end == nil, errors.As(end, &lost), errors.Is(end, ErrClosed): // of the last the next campaign tells
		return true
	default:
		yield(nil, errors.Join(context.Cause(ctx), end))
		return false
	}
}

// Proclaim has the leader say something else than before to those who observe the election; it takes the place of what
// was said with [WithData], and Queue shows it, too. It is written in one transaction with a check that the term's node
// still exists, so whoever does not lead any more says nothing, however late that arrives.
//
// It waits for a connection, if there is none, and for the answer, until ctx ends. The errors are those of [Acquisition.Txn]; with
// [ErrOutcomeUnknown] it may have been said. [ErrNotCandidate] says that the acquisition is none of this election, of this
// coordinator, and that nothing was sent. The data are the caller's again when it has returned.
func (e *Election) Proclaim(ctx context.Context, term *Acquisition, data []byte) error {
	if term == nil || term.lock.c != e.lock.c || term.lock.path != e.lock.path || term.lock.family != e.lock.family {
		return fmt.Errorf("%w: %s", ErrNotCandidate, e.lock.path)
	}
	if err := checkData(data, e.lock.path); err != nil {
		return err
	}
	grant := term.Grant()
	if grant.Node == "" {
		return term.notHeld(grant)
	}
	_, err := term.Txn(ctx, e.lock.c.session.Rewrite(grant.Node, data))
	return err
}

// Queue returns the candidates in their order: who leads, and then those who would, one after the other. What is said at
// [Lock.Queue] holds here, too.
func (e *Election) Queue(ctx context.Context) ([]events.Contender, error) { return e.lock.Queue(ctx) }

// Observe delivers who leads: at first who does at that time, and then each change, a proclamation included, in order. That
// nobody leads is said, too, by a Leader without a Node; also at first, and where there is no such path, or
// none any more. Anybody may observe, candidate or not.
//
// Changes that come quicker than they are read may merge: what is read is the latest, is never what was read before it, and
// ends with the one who leads at last. The Token is the fencing token of the term; it grows from leader to leader, and stays with a proclamation. What is
// said is what a server knew. The leader may not lead any more by then, or not have heard yet that it does; so it is for
// finding the leader, and not a proof.
//
// While there is no connection nothing new is delivered, and what was said last stands, also for who begins to observe then. After it the present leader follows, if
// it is another one, also in a new session. The channel is closed when ctx ends or the coordinator is closed. It is closed as
// well, and a warning logged, when nothing can be seen: if the path is none, or if it or the leader's node may not be read. Queue
// then says why.
//
// It costs no goroutine, and nothing while candidates come and go behind the leader: only the leader's node is watched, or
// the path while there is no candidate. A new leader costs one listing and one reading, a proclamation one reading, for each
// coordinator, however many observe the election there. A watch that is there when the last of them has ended remains until
// the leader changes, and is used again by the next one who observes.
func (e *Election) Observe(ctx context.Context) <-chan events.Leader {
	c := e.lock.c
	if err := c.checkPath(e.lock.path); err != nil {
		c.cfg.Logger.Warn("cannot see who leads", zap.String("path", e.lock.path), zap.Error(err))
		none := make(chan events.Leader)
		close(none)
		return none
	}
	return c.session.Observe(ctx, e.lock.path)
}
