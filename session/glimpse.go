package session

import (
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// mostGlimpses bounds the glimpses under way at a time, as mostLooks does looks.
const mostGlimpses = 8

// glimpse is a request that reads who leads, and has the session told when that is over. It is made in any epoch, and
// begins anew in each.
type glimpse struct {
	slot

	outlook   *outlook // the drain's, and not looked into by anybody else
	dir, name string   // the election's path at the server, and as its observers know it
	node      string   // who led the last time, and may still do
	token     int64    // of that one
	was       string   // what was looked out on
	begun     atomic.Bool

	on     string // what is looked out on now
	found  string // the leader's path, or nothing
	leader events.Leader
}

var _ request = (*glimpse)(nil)

func (g *glimpse) meantFor() recipes.Epoch { return 0 }

// urgency: after a reconnect there is one for each election that is observed, and locks must not wait for them.
func (g *glimpse) urgency() urgency { return observing }

func (g *glimpse) refuse() {} // the session is closed, and so are the channels

func (g *glimpse) do(c *client) (func(*Session), error) {
	g.begun.Store(true)
	err := g.read(c)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		g.settle(s, c, outcome, err)
	}, err
}

func (g *glimpse) settle(s *Session, c *client, outcome zkerr.Outcome, err error) {
	v := g.outlook
	switch {
	case s.closing:
		return
	case len(v.observers) == 0:
		v.glimpse, v.on = nil, g.on
		v.drop(c)
	case outcome == zkerr.Unknown || zkerr.Unsettled(err) || c != s.client || c.over:
		// An answer of a past session is a word about it, with a watch that went with it.
		g.begun.Store(false)
		s.again(c, g)
	case outcome == zkerr.Refused:
		c.logger.Warn("cannot see who leads", zap.String("path", g.name), zap.Error(err))
		v.glimpse, v.on = nil, g.on
		v.end()
		v.drop(c)
	default:
		v.glimpse, v.on = nil, g.on
		v.tell(g)
		if v.again {
			v.look()
		}
	}
}

// read looks who leads, and looks out for the end of that.
func (g *glimpse) read(c *client) error {
	asked := []string{g.was, g.on} // the latter if it was read before, and the connection lost then
	g.on, g.found, g.leader = "", "", events.Leader{}
	defer func() { // whatever else it has had watched on the way matters no more
		for _, p := range asked {
			if p != g.on {
				c.looks.forget(p, g.outlook)
			}
		}
	}()
	lookOut := func(p string) (arm bool, fires int) {
		asked = append(asked, p)
		return c.looks.ask(p, g.outlook)
	}
	if g.node != "" {
		err := g.candidate(c, g.node, lookOut)
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || g.leader.Token == g.token) {
			return err
		}
	}
	for range reaped {
		before := g.leader
		node, upTo, err := g.first(c, lookOut)
		if err != nil || node == "" {
			return err
		}
		err = g.candidate(c, node, lookOut)
		// Names without a GUID come again: 1. x is listed; 2. the directory goes, and is made again; 3. another x comes,
		// and not as the first. That one is younger than the listing. It is not if it was read before that, too, which
		// a server may have to be told that has mistaken its directory's last change (ZOOKEEPER-3125).
		same := g.leader.Node == before.Node && g.leader.Token == before.Token
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || same || g.leader.Token <= upTo) {
			return err
		}
	}
	return fmt.Errorf("%s changes as often as it is read", g.dir)
}

// candidate reads a candidate's node.
func (g *glimpse) candidate(c *client, node string, lookOut func(string) (bool, int)) error {
	var (
		data []byte
		stat *zk.Stat
		err  error
	)
	if arm, fires := lookOut(node); arm {
		data, stat, _, err = c.conn.GetW(node)
		c.looks.answered(node, fires, err == nil)
	} else {
		data, stat, err = c.conn.Get(node)
	}
	if err != nil {
		return err
	}
	g.on, g.found = node, node
	g.leader = events.Leader{Node: path.Join(g.name, path.Base(node)), Data: data, Token: stat.Czxid}
	return nil
}

// first lists the directory and returns the first candidate's path, and the zxid up to which those were made that are listed. If
// there is none it looks out for one, and returns nothing.
func (g *glimpse) first(c *client, lookOut func(string) (bool, int)) (node string, upTo int64, _ error) {
	for range reaped {
		children, stat, err := c.conn.Children(g.dir)
		if name, ok := leads(children); ok && err == nil {
			return path.Join(g.dir, name), stat.Pzxid, nil
		}
		if err == nil {
			children, stat, err = g.awaitCandidate(c, lookOut)
		}
		if errors.Is(err, zk.ErrNoNode) {
			there, err := g.awaitDirectory(c, lookOut)
			if err != nil || !there {
				return "", 0, err
			}
			continue
		}
		if err != nil {
			return "", 0, err
		}
		if name, ok := leads(children); ok {
			return path.Join(g.dir, name), stat.Pzxid, nil
		}
		g.on = g.dir
		return "", 0, nil
	}
	return "", 0, fmt.Errorf("%s is deleted as often as it is made", g.dir)
}

// awaitCandidate lists the directory and looks out for a change of that.
func (g *glimpse) awaitCandidate(c *client, lookOut func(string) (bool, int)) (children []string, stat *zk.Stat, err error) {
	arm, fires := lookOut(g.dir)
	if !arm {
		return c.conn.Children(g.dir)
	}
	children, stat, _, err = c.conn.ChildrenW(g.dir)
	c.looks.answered(g.dir, fires, err == nil)
	return children, stat, err
}

// awaitDirectory looks out for the creation of a directory that was not there, and tells whether it is there by now. Then
// it is the data that the server watches, which says nothing of the children.
func (g *glimpse) awaitDirectory(c *client, lookOut func(string) (bool, int)) (there bool, err error) {
	if arm, fires := lookOut(g.dir); arm {
		there, _, _, err = c.conn.ExistsW(g.dir)
		c.looks.answered(g.dir, fires, err == nil && !there)
	} else {
		there, _, err = c.conn.Exists(g.dir)
	}
	if err == nil && !there {
		g.on = g.dir
	}
	return there, err
}

// leads returns which of a directory's children leads.
func leads(children []string) (name string, ok bool) {
	var queue []events.Name
	for _, child := range children {
		if n, ok := events.ParseName(child); ok {
			queue = append(queue, n)
		}
	}
	first, ok := recipes.Leads(queue)
	return first.Text, ok
}
