package session

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// ErrClosed says that the session was closed.
var ErrClosed = errors.New("zkgrant: coordinator closed")

const (
	// mostSurveys bounds the surveys under way at a time. Each takes one of the places
	// that requests have, for as long as all of its readings take.
	mostSurveys = 8
	// mostReadings bounds the readings of all surveys that are under way at a time. A
	// server executes the requests of a session one after the other, so it is what
	// those of locks have to wait behind at the most.
	mostReadings = 64
)

// Found is a node as it was read.
type Found struct {
	Name string // the last component of its path
	Data []byte // the caller's
	Stat *zk.Stat
}

// Survey reads the children of a directory that are wanted, or all of them if wanted
// is nil, in no order. A child that is gone by the time it is read is left out; of a
// directory that does not exist nothing is found, and that is no error. The path is
// valid and without the chroot. What is found is what one server knew, which may be
// behind the others; but it is not behind what this session has done or been told.
//
// Nothing is written and nothing watched. Survey waits for a connection, if there is
// none, and for the answers, until ctx ends. When the connection is lost meanwhile it
// begins again, so what it returns is never put together from two sessions. The error
// is the cause of ctx, ErrClosed, or a server's refusal: [ErrNoAuth] if the directory
// or one of the children may not be read.
func (s *Session) Survey(ctx context.Context, dir string, wanted func(name string) bool) ([]Found, error) {
	dir = join(s.chroot, dir)
	return s.survey(ctx, func(c *client) ([]Found, error) { return c.gather(ctx, dir, wanted) })
}

// Look is Survey for one node: it returns that, or nothing if it does not exist.
func (s *Session) Look(ctx context.Context, node string) ([]Found, error) {
	node = join(s.chroot, node)
	return s.survey(ctx, func(c *client) ([]Found, error) {
		return c.readAll(ctx, path.Dir(node), []string{path.Base(node)})
	})
}

func (s *Session) survey(ctx context.Context, read func(*client) ([]Found, error)) ([]Found, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case s.surveys <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	v := &survey{ctx: ctx, read: read, place: s.surveys, outcome: make(chan surveyed, 1)}
	if !s.actor.Post(v) { // nothing is left of the session
		v.refuse()
	}
	select {
	case out := <-v.outcome:
		return out.found, out.err
	case <-ctx.Done(): // which the request finds out by itself
		return nil, context.Cause(ctx)
	}
}

// survey is a request that reads, for somebody who waits until ctx ends.
type survey struct {
	slot

	ctx     context.Context
	read    func(*client) ([]Found, error)
	place   <-chan struct{} // has one that is given back at the end
	outcome chan surveyed   // size 1
}

// surveyed is the outcome of a survey.
type surveyed struct {
	found []Found
	err   error
}

var _ request = (*survey)(nil)

// meantFor: in any epoch, for it begins anew in each.
func (v *survey) meantFor() recipes.Epoch { return 0 }

func (v *survey) refuse() { v.end(nil, ErrClosed) }

// end comes once. The place is kept until then, and not only as long as somebody
// waits: whoever gives up again and again before a server that does not answer would
// have any number of requests under way.
func (v *survey) end(found []Found, err error) {
	v.outcome <- surveyed{found, err}
	<-v.place
}

func (v *survey) do(c *client) (func(*Session), error) {
	var (
		found []Found
		err   error
	)
	if v.ctx.Err() == nil { // else nobody waits
		found, err = v.read(c)
	}
	outcome, err := Classify(err)
	return func(s *Session) {
		switch {
		case v.ctx.Err() != nil: // what was found may not be all of it
			v.end(nil, context.Cause(v.ctx))
		case outcome == Unknown, unsettled(err):
			s.again(c, v)
		default:
			v.end(found, err)
		}
	}, err
}

// gather lists the directory and reads those that are wanted.
func (c *client) gather(ctx context.Context, dir string, wanted func(name string) bool) ([]Found, error) {
	c.readings <- struct{}{}
	children, _, err := c.conn.Children(dir)
	<-c.readings
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, child := range children {
		if wanted == nil || wanted(child) {
			names = append(names, child)
		}
	}
	return c.readAll(ctx, dir, names)
}

// readAll reads the nodes, many at a time, and leaves out those that do not exist. It
// stops at an error and at the end of ctx, and returns when none is under way.
func (c *client) readAll(ctx context.Context, dir string, names []string) ([]Found, error) {
	var (
		reading sync.WaitGroup
		stopped atomic.Bool
		errs    = make([]error, len(names))
		all     = make([]Found, len(names))
	)
	for i, name := range names {
		c.readings <- struct{}{}
		if stopped.Load() || ctx.Err() != nil {
			<-c.readings
			break
		}
		reading.Go(func() {
			defer func() { <-c.readings }()
			data, stat, err := c.conn.Get(path.Join(dir, name))
			switch {
			case err == nil:
				all[i] = Found{Name: name, Data: data, Stat: stat}
			case !errors.Is(err, zk.ErrNoNode):
				errs[i] = err
				stopped.Store(true)
			}
		})
	}
	reading.Wait()
	found := all[:0]
	for i, f := range all {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if f.Stat != nil {
			found = append(found, f)
		}
	}
	return found, nil
}
