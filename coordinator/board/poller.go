package board

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

const (
	// patience bounds one look, for example without a connection.
	patience = 10 * time.Second
	// mostReads is about how many requests a second the looks may make.
	mostReads = 1000
)

// poll walks through the locks.
type poll func(context.Context) iter.Seq2[coordinator.LockInfo, error]

// sighting is what one look sees at a lock.
type sighting struct {
	info  coordinator.LockInfo
	err   error          // why it cannot be read
	bytes map[string]int // the length of the data that are cut, by contender's node
}

// sight keeps what is shown of a lock: the beginning of the data, and times that JSON can have.
func sight(info coordinator.LockInfo, err error) sighting {
	f := sighting{info: info, err: err}
	for i := range info.Contenders {
		c := &info.Contenders[i]
		if year := c.Since.UTC().Year(); year < 0 || year > 9999 { // the servers' clock can say so
			c.Since = time.Unix(0, 0)
		}
		if len(c.Data) <= mostData {
			continue
		}
		if f.bytes == nil {
			f.bytes = map[string]int{}
		}
		f.bytes[c.Node] = len(c.Data)
		c.Data = []byte(cut(c.Data)) // a copy, without the rest of the data
	}
	return f
}

// walk returns the locks, and an error if it did not come to the end.
func (p poll) walk(ctx context.Context) (found []sighting, _ error) {
	for info, err := range p(ctx) {
		if err != nil && (ctx.Err() != nil || errors.Is(err, coordinator.ErrClosed) || errors.Is(err, coordinator.ErrPath)) {
			return nil, err
		}
		found = append(found, sight(info, err))
	}
	return found, nil
}

// run looks again and again until ctx ends.
func (b *Board) run(ctx context.Context) {
	b.turn.Lock()
	defer b.turn.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() { b.listen(ctx) })
	next := time.NewTimer(time.Until(b.due))
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		found, err := b.look(ctx)
		switch {
		case errors.Is(err, coordinator.ErrClosed):
			b.end()
			return
		case ctx.Err() != nil:
			return
		}
		ended := time.Now()
		own := b.c.SessionID()
		b.due = due(began, ended, b.interval, reads(found))
		b.tell(func(s *state) {
			s.pace = b.due.Sub(began)
			if err != nil {
				s.fail(err, ended)
				return
			}
			s.apply(found, own, began, ended)
		})
		next.Reset(time.Until(b.due))
	}
}

// look is one walk. It gives up after patience.
func (b *Board) look(ctx context.Context) ([]sighting, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("ZooKeeper does not answer"))
	defer cancel()
	return b.poll.walk(ctx)
}

// reads estimates how many requests a look makes: a listing for each node, and a read for each holder.
func reads(found []sighting) (n int) {
	for _, f := range found {
		n += 2
		if f.info.Kind == coordinator.LockSemaphore {
			n += 3
		}
		for _, c := range f.info.Contenders {
			if c.Holding {
				n++
			}
		}
	}
	return n
}

// due returns when the next look may begin: looks fill at most half of the time, and stay within
// mostReads.
func due(began, ended time.Time, interval time.Duration, reads int) time.Time {
	next := began.Add(max(interval, time.Duration(reads)*time.Second/mostReads))
	if rested := ended.Add(ended.Sub(began)); rested.After(next) {
		return rested
	}
	return next
}

// listen puts the coordinator's own events into the timeline until ctx or the coordinator ends.
func (b *Board) listen(ctx context.Context) {
	for event := range b.c.Events(ctx, coordinator.Passive()) {
		if m, ok := ownMoment(event); ok {
			m.At = time.Now().UnixMilli()
			b.tell(func(s *state) { s.add(m) })
		}
	}
	if ctx.Err() == nil {
		b.end()
	}
}
