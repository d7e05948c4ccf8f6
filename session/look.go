package session

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/pace"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file reads queues, and other nodes, for callers that look at locks.

// A look reads only a little at a time. Its answers arrive on the connection that proves
// the lease, one after another, and the size of an answer is not known in advance.
const (
	// mostReadings limits the reads in progress of all looks together. A server executes
	// the requests of a session one after another, so a lock's request waits for at most
	// that many reads.
	mostReadings = 64
	// mostBytes limits the bytes of their answers, as estimated from earlier answers. A
	// longer answer is read alone.
	mostBytes = 256 << 10
	// firstGuess is the estimate for the first answer of a look, so that it begins with
	// four reads.
	firstGuess = mostBytes / 4
	// lull is the time without a read after which earlier estimates no longer count.
	lull = time.Second
)

// flow is a group of reads whose number is limited by their bytes. Its guess for the size
// of the next answer is the largest recent one, halved by each smaller answer.
type flow struct {
	underWay int
	guess    int
	last     time.Time // when the last answer came
}

// width returns how many reads may be in progress.
func (f *flow) width() int { return max(1, mostBytes/max(1, f.guess)) }

// resume is called before a read begins while none is in progress.
func (f *flow) resume(now time.Time) {
	if now.Sub(f.last) >= lull {
		f.guess = max(f.guess, firstGuess)
	}
}

// answered notes the size of an answer.
func (f *flow) answered(size int, now time.Time) {
	f.guess, f.last = max(size, f.guess/2), now
}

// readings limits the reads in progress of all looks. Listings and data are separate
// flows, because the names in a directory may be short and their data long. Each
// directory's data are also a flow of their own, with its own guess.
type readings struct {
	mu      sync.Mutex
	changed sync.Cond
	all     int // in progress
	names   flow
	data    flow
}

// begin waits for a place in each flow. A place becomes free when a read is answered, or
// its connection ends. A read that is still in the client's queue then waits for the next
// connection, so begin may wait for as long as an outage lasts. No caller waits that
// long, because [call] returns when the caller's ctx ends.
func (r *readings) begin(flows ...*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range flows {
		if f.underWay == 0 {
			f.resume(time.Now())
		}
	}
	full := func(f *flow) bool { return f.underWay >= f.width() }
	for r.all >= mostReadings || slices.ContainsFunc(flows, full) {
		r.changed.Wait()
	}
	r.all++
	for _, f := range flows {
		f.underWay++
	}
}

// end returns the places. size is the answer's size, or -1 if there was none.
func (r *readings) end(size int, flows ...*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	for _, f := range flows {
		if f.underWay--; size >= 0 {
			f.answered(size, time.Now())
		}
	}
	r.changed.Broadcast()
}

// Found is a node as it was read.
type Found struct {
	Name string // the last component of its path
	Data []byte // the caller's, unless a [Known] keeps it
	Stat *zk.Stat
}

// ReadQueue reads the wanted children of a directory, or all of them if wanted is nil, in
// no particular order. It omits a child that is gone by the time it is read. A missing
// directory has no children, and is not an error. The path must be valid, and does not
// include the chroot. The result is what one server knew, which may be older than what
// other servers know, but not than what this session has done or seen.
//
// ReadQueue writes and watches nothing. It waits for a connection and for the answers
// until ctx ends. If the connection is lost, it starts over, so the result never mixes
// two sessions. The error is the cause of ctx, [ErrClosed], or a refusal such as
// [ErrNoAuth].
func (s *Session) ReadQueue(ctx context.Context, dir string, wanted func(name string) bool) ([]Found, error) {
	dir = under(s.chroot, dir)
	return look(ctx, s, func(c *client) ([]Found, error) {
		children, _, err := c.listed(dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		names := slices.DeleteFunc(children,
			func(child string) bool { return wanted != nil && !wanted(child) })
		return c.readAll(ctx, dir, names, nil)
	})
}

// Look is like [Session.ReadQueue], for a single node: it returns the node, or nothing if
// it does not exist.
func (s *Session) Look(ctx context.Context, node string) ([]Found, error) {
	node = under(s.chroot, node)
	return look(ctx, s, func(c *client) ([]Found, error) {
		return c.readAll(ctx, path.Dir(node), []string{path.Base(node)}, nil)
	})
}

// look calls read, and returns the complete result or nothing.
func look[T any](ctx context.Context, s *Session, read func(*client) ([]T, error)) ([]T, error) {
	seen, err := call(ctx, s, callOptions{urgent: looking}, read)
	if err != nil {
		return nil, err
	}
	return seen, nil
}

// listed lists a directory, once the limits allow it.
func (c *client) listed(dir string) (children []string, stat *zk.Stat, err error) {
	c.readings.begin(&c.readings.names)
	size := -1
	if children, stat, err = c.conn.Children(dir); err == nil {
		size = 0
		for _, child := range children {
			size += 4 + len(child) // as sent on the wire
		}
	}
	c.readings.end(size, &c.readings.names)
	return children, stat, err
}

// readAll reads the nodes, many at a time, and omits those that do not exist. It stops at
// an error or the end of ctx, and returns once no read is in progress. With a pass, each
// read waits for its turn.
func (c *client) readAll(ctx context.Context, dir string, names []string, p *pass) ([]Found, error) {
	var (
		reading sync.WaitGroup
		stopped atomic.Bool
		errs    = make([]error, len(names))
		all     = make([]Found, len(names))
		flows   = []*flow{&c.readings.data, {}}
	)
	for i, name := range names {
		if err := p.next(ctx); err != nil {
			errs[i] = err
			break
		}
		c.readings.begin(flows...)
		// begin may have waited, and there may have been an error, or ctx may have ended.
		if stopped.Load() || ctx.Err() != nil {
			c.readings.end(-1, flows...)
			break
		}
		reading.Go(func() {
			size := -1
			defer func() { c.readings.end(size, flows...) }()
			data, stat, err := c.conn.Get(path.Join(dir, name))
			switch {
			case err == nil:
				size = len(data)
				all[i] = Found{Name: name, Data: data, Stat: stat}
				// Keep it now: time may run out before the others are read.
				p.keep(all[i])
			case !errors.Is(err, zk.ErrNoNode):
				errs[i] = err
				stopped.Store(true)
			}
		})
	}
	reading.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(f Found) bool { return f.Stat == nil }), nil
}

// DefaultReadRate is how many reads per second a process sends to read queues, unless
// [SetReadRate] sets another rate.
const DefaultReadRate = 1000

// reads is shared by all looks of this process: the limit protects the servers, which the
// process may use with several sessions.
//
//nolint:gochecknoglobals // there is one a process
var reads = pace.NewLimiter(DefaultReadRate)

// SetReadRate sets how many reads per second [Session.Inspect] sends in this process, in
// all sessions together. 0 means no limit.
func SetReadRate(rate int) { reads.Set(rate) }

// AwaitRead waits for the turn of a read made outside Inspect. If ctx ends first, it
// returns the cause.
func AwaitRead(ctx context.Context) error {
	_, err := reads.Wait(ctx, time.Time{})
	return err
}

// Inspected is a node and its contents, or why it could not be read. The caller owns it,
// except for the Data and Stats in Found if a [Known] keeps them: these must not be
// modified.
type Inspected struct {
	Stat    *zk.Stat // nil: the node does not exist, or may not be read
	Found   []Found  // the wanted children, or the node itself if it is ephemeral
	Rest    []string // the names of the other children, sorted
	Err     error    // a server's refusal, such as [ErrNoAuth]; the other fields are still valid
	Partial bool     // time ran out before everything was read; the other fields are empty
}

// Inspection configures [Session.Inspect].
type Inspection struct {
	Wanted func(name string) bool // the children to read
	Known  *Known                 // what was read before; new contents are added; nil: nothing is kept
	Until  time.Time              // no read is sent after it; zero: no limit
}

// Known holds contents of directories, which need not be read again. The zero value is
// empty. Its methods are safe for concurrent use. The contents must not be modified,
// because later reads return them again.
type Known struct {
	mu   sync.Mutex
	dirs map[string]map[string]Found // by directory and name
}

// Len returns the number of directories whose contents are known.
func (k *Known) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.dirs)
}

// Keep replaces what is known about a directory.
func (k *Known) Keep(dir string, found map[string]Found) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.dirs, dir); len(found) > 0 {
		if k.dirs == nil {
			k.dirs = map[string]map[string]Found{}
		}
		k.dirs[dir] = found
	}
}

func (k *Known) add(dir string, f Found) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dirs == nil {
		k.dirs = map[string]map[string]Found{}
	}
	if k.dirs[dir] == nil {
		k.dirs[dir] = map[string]Found{}
	}
	k.dirs[dir][f.Name] = f
}

// split divides the children of a directory into known and other ones.
func (k *Known) split(dir string, stat *zk.Stat, children []string) (known []Found, others []string) {
	if k == nil {
		return nil, children
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.dirs[dir]
	for _, child := range children {
		if f, ok := all[child]; ok && f.Stat.Czxid > stat.Czxid { // otherwise it is a different directory
			known = append(known, f)
		} else {
			others = append(others, child)
		}
	}
	return known, others
}

// pass lets the reads of an inspection through, one at a time. A nil pass lets all
// through, and keeps nothing.
type pass struct {
	until time.Time
	known *Known
	dir   string
}

// errLater reports that a read was not sent because the inspection has run out of time.
var errLater = errors.New("the time is over")

func (p *pass) next(ctx context.Context) error {
	if p == nil || IsRootOnly(ctx) {
		return nil
	}
	ok, err := reads.Wait(ctx, p.until)
	if err == nil && !ok {
		return errLater
	}
	return err
}

func (p *pass) keep(f Found) {
	if p != nil && p.dir != "" {
		p.known.add(p.dir, f)
	}
}

// Inspect lists each of the nodes and reads their wanted children, as [Session.ReadQueue]
// does for one directory. The nodes are valid paths without the chroot, and the results
// are in the same order. If a node cannot be read, its result has the error, and Inspect
// itself does not fail.
//
// Each listing and each read waits for its turn in the process; see [SetReadRate].
// Inspect returns when it runs out of time.
func (s *Session) Inspect(ctx context.Context, nodes []string, how Inspection) ([]Inspected, error) {
	return look(ctx, s, func(c *client) ([]Inspected, error) {
		var inspecting sync.WaitGroup
		all, errs := make([]Inspected, len(nodes)), make([]error, len(nodes))
		for i, node := range nodes {
			inspecting.Go(func() { all[i], errs[i] = c.inspect(ctx, s.chroot, node, how) })
		}
		inspecting.Wait()
		return all, cmp.Or(errs...)
	})
}

// inspect inspects one node. A refusal becomes part of the result; any other error is
// returned.
func (c *client) inspect(ctx context.Context, chroot, node string, how Inspection) (seen Inspected, _ error) {
	p := &pass{until: how.Until, known: how.Known}
	full := under(chroot, node)
	var children []string
	var stat *zk.Stat
	err := p.next(ctx)
	if err == nil {
		children, stat, err = c.listed(full)
	}
	if err == nil {
		seen.Stat = stat
		// An ephemeral node has no children: it can only be an unfair lock itself.
		dir, names := full, []string(nil)
		if Ephemeral(stat) {
			dir, names = path.Dir(full), []string{path.Base(full)}
		} else {
			p.dir = node
			seen.Found, children = how.Known.split(node, stat, children)
			for _, child := range children {
				if how.Wanted(child) {
					names = append(names, child)
				} else {
					seen.Rest = append(seen.Rest, child)
				}
			}
			slices.Sort(seen.Rest)
		}
		var read []Found
		read, err = c.readAll(ctx, dir, names, p)
		seen.Found = append(seen.Found, read...)
	}
	outcome, refusal := zkerr.Classify(err)
	switch {
	case errors.Is(err, errLater):
		return Inspected{Partial: true}, nil
	case errors.Is(err, zk.ErrNoNode):
		return Inspected{}, nil
	case outcome == zkerr.Refused:
		// A node that may not be read must not end a walk through the others.
		seen.Err = refusal
		return seen, nil
	default:
		return seen, err
	}
}

type progressKey struct{}

// Progress is the progress of a search for locks.
type Progress struct {
	Nodes int  // nodes looked at so far
	Whole bool // the whole tree was searched once; Nodes may belong to the next search
}

// WithProgress returns a context for a walk through a tree. The walk calls report, in its
// own goroutine, as it proceeds.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress calls the function of [WithProgress], if ctx has one.
func ReportProgress(ctx context.Context, p Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		report(p)
	}
}

type rootOnlyKey struct{}

// RootOnly returns a context for a walk that reads only its root. Like the reads of
// [Session.ReadQueue], its reads do not wait for a turn.
func RootOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, rootOnlyKey{}, true)
}

// IsRootOnly reports whether ctx descends from [RootOnly].
func IsRootOnly(ctx context.Context) bool { return ctx.Value(rootOnlyKey{}) != nil }

type watchedKey struct{}

// WithWatched returns a context for the looks of a poll. If watched reports that the
// caller watches a lock's path, the lock is read only every few seconds; in between, it
// is yielded as last seen.
func WithWatched(ctx context.Context, watched func(path string) bool) context.Context {
	return context.WithValue(ctx, watchedKey{}, watched)
}

// IsWatched reports the result of the function of [WithWatched] for a path.
func IsWatched(ctx context.Context, path string) bool {
	watched, ok := ctx.Value(watchedKey{}).(func(string) bool)
	return ok && watched(path)
}
