package board

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// interval is the default of [WithInterval]: the minimum time between the beginnings of
// two searches for locks.
const interval = 500 * time.Millisecond

// Board is an http.Handler that shows locks. Its methods are safe for concurrent use.
type Board struct {
	c         *coordinator.Coordinator
	root      string
	interval  time.Duration
	authorise func(*http.Request) error // nil: read-only
	lease     *Lease                    // nil: no bars
	most      int                       // how many locks are watched at most

	ctx  context.Context // ends with the board
	end  context.CancelFunc
	runs sync.WaitGroup // the poller

	turn sync.Mutex // held by the poller: there is one at a time
	poll poll
	due  time.Time // when the next look may begin

	mu      sync.Mutex // guards all that follows
	state   state      // changed by tell
	viewers map[*viewer]struct{}
	stop    context.CancelFunc // ends the poller
	drop    *time.Timer        // calls forget some time after the last viewer left
}

// Option configures [New].
type Option func(*Board)

// WithRevoke lets the page request locks, if authorise returns nil for the HTTP request.
// The board calls authorise for each open page, to decide whether to show the button, and
// for each revocation; a refusal shows the text of its error. With a nil authorise, the
// board is read-only.
func WithRevoke(authorise func(*http.Request) error) Option {
	return func(b *Board) { b.authorise = authorise }
}

// WithLease draws the lease of this process's own locks. Pass the same Lease to
// [coordinator.WithHooks]. A nil lease draws nothing.
func WithLease(lease *Lease) Option { return func(b *Board) { b.lease = lease } }

// WithInterval sets the minimum time between two searches for locks. The default is half
// a second. Values below 10 ms become 10 ms. A lock that was found is watched.
func WithInterval(d time.Duration) Option {
	return func(b *Board) { b.interval = max(d, 10*time.Millisecond) }
}

// New returns a board of the locks below root, a path of the coordinator; "/" shows all.
// It fails with [coordinator.ErrPath] or [coordinator.ErrClosed]. The board sends
// ZooKeeper no request until a page is open.
//
//nolint:contextcheck,nolintlint // it lasts until Close, whatever the caller's context does; the linter heeds this where New is called
func New(c *coordinator.Coordinator, root string, options ...Option) (*Board, error) {
	b := &Board{
		c: c, root: root, interval: interval, most: mostWatched,
		poll: c.Poll(root), viewers: map[*viewer]struct{}{}, state: newState(),
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.poll.walk(over); !errors.Is(err, context.Canceled) { // it checks the path before the context
		return nil, fmt.Errorf("board: %w", err)
	}
	if c.State() == coordinator.StateClosed {
		return nil, fmt.Errorf("board: %w", coordinator.ErrClosed)
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	for _, o := range options {
		if o != nil {
			o(b)
		}
	}
	return b, nil
}

// Close ends the stream of every open page and every revocation in progress, and waits
// for the poller. Later requests are answered with 503. Close may be called more than
// once. Closing the coordinator has the same effect.
func (b *Board) Close() {
	b.mu.Lock()
	b.end()
	b.mu.Unlock()
	b.runs.Wait()
	b.forget()
}

// viewer is an open page, or a request that waits for a look.
type viewer struct{ poke chan struct{} }

// enter adds a viewer, and starts the poller for the first one.
//
//nolint:contextcheck,nolintlint // the poller lasts until the last viewer leaves
func (b *Board) enter() (v *viewer, leave func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return nil, nil, false
	}
	v = &viewer{poke: make(chan struct{}, 1)}
	b.viewers[v] = struct{}{}
	if len(b.viewers) == 1 {
		if b.drop != nil {
			b.drop.Stop()
		}
		ctx, cancel := context.WithCancel(b.ctx)
		b.stop = cancel
		b.runs.Go(func() { b.run(ctx) })
	}
	return v, func() { b.leave(v) }, true
}

// leave removes a viewer, and ends the poller after the last one. The locks are kept for
// a while, because the page may be opened again.
func (b *Board) leave(v *viewer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.viewers, v); len(b.viewers) == 0 {
		b.stop()
		b.drop = time.AfterFunc(max(patience, 2*b.interval), b.forget)
	}
}

// forget drops what is known of the locks, unless the poller runs. The timeline stays.
func (b *Board) forget() {
	if !b.turn.TryLock() {
		return
	}
	defer b.turn.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.viewers) == 0 || b.ctx.Err() != nil {
		b.poll = b.c.Poll(b.root)
		b.state.drop()
	}
}

// tell changes the state, and wakes the viewers without waiting for them.
func (b *Board) tell(change func(*state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.state)
	for v := range b.viewers {
		select {
		case v.poke <- struct{}{}:
		default: // its last poke is still pending
		}
	}
}
