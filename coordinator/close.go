package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Close withdraws every acquisition, which ends with [ErrClosed], ends the session and waits for every goroutine. The end of the
// session removes all nodes in one transaction. Close takes no longer
// than the session timeout, however dead the network is; if no server has said that the session is over, it
// returns an error, and the nodes go when it expires. A
// function that runs in [Lock.Do] is waited for, for half the session timeout at
// most: to call Close from inside one is to wait in vain. Until the last one has returned, the other nodes are removed one by
// one. Closing twice is harmless.
func (c *Coordinator) Close() error {
	locks, empty, first := c.live.close()
	if !first {
		<-c.ended
		return nil
	}
	c.shut()
	defer close(c.ended)

	start, bound := time.Now(), c.session.Timeout()
	until := func(eighths time.Duration) time.Duration { return time.Until(start.Add(bound * eighths / 8)) }
	for _, detect := range [...]bool{true, false} { // the end of the session removes no records: their requests go first
		for _, a := range locks {
			if a.lock.cfg.detect == detect {
				a.actor.Withdraw(recipes.WhyClosed)
			}
		}
	}
	if awaitAll(locks, (*Acquisition).returned, until(4)) > 0 {
		for _, a := range locks {
			a.actor.Force() // functions have had their time
		}
	}
	records := awaitAll(locks, (*Acquisition).cleared, until(5))
	if c.live.len() > 0 {
		c.session.Quiesce(until(5))
	}
	left := c.live.len() // the answers of the last flight have been counted
	var err error
	if !c.session.Close(until(7)) && left > 0 {
		err = fmt.Errorf("zkgrant: closed, and no server has said that the session is over; nodes that may be left until it expires: %d", left)
	}
	if records > 0 {
		err = errors.Join(err, fmt.Errorf("zkgrant: closed, and of so many locks a record may tell of a crash that was none: %d", records))
	}
	<-empty // the end of the session ends what is left
	c.house.Stream.Close(bound / 8)
	c.house.Group.Close()
	return err
}

func (a *Acquisition) returned() <-chan struct{} { return a.actor.Returned() }

func (a *Acquisition) cleared() <-chan struct{} { return a.actor.Cleared() }

// awaitAll waits for what each of them waits for, for so long at most, and returns of how many it has not come.
func awaitAll(all []*Acquisition, event func(*Acquisition) <-chan struct{}, wait time.Duration) (left int) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for i, a := range all {
		select {
		case <-event(a):
		case <-timer.C:
			for _, a := range all[i:] {
				select {
				case <-event(a):
				default:
					left++
				}
			}
			return left
		}
	}
	return 0
}
