package session

import (
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// leaderRead is one round of a leader watch: it reads which candidate leads, and watches for the end of that.
type leaderRead struct {
	*leaderWatch
	c *client
}

// read returns the leader.
func (w *leaderWatch) read(c *client) (events.Leader, error) {
	r := leaderRead{w, c}
	leader, err := r.again()
	if err == nil && leader.Node == "" || errors.Is(err, zk.ErrNoNode) {
		leader, err = r.search()
	}
	if err == nil && c.isOver() { // news of a past session, with a watch that ended with it
		err = zk.ErrConnectionClosed
	}
	return leader, err
}

// again reads the node of the last leader, which may still lead. If another node has its name now, that one need not lead.
func (r leaderRead) again() (events.Leader, error) {
	node, gone := r.node(), r.begin()
	if node == "" || gone {
		return events.Leader{}, nil
	}
	leader, err := r.candidate(node)
	if err == nil && leader.Token != r.word.Token {
		return events.Leader{}, nil
	}
	return leader, err
}

// search looks for the first candidate.
func (r leaderRead) search() (leader events.Leader, _ error) {
	for range reaped {
		before := leader
		node, upTo, err := r.first()
		if err != nil || node == "" {
			return events.Leader{}, err
		}
		leader, err = r.candidate(node)
		// A name without a GUID can come again, in three steps:
		//
		//  1. x is listed.
		//  2. The directory goes, and is made again.
		//  3. Another x comes, and is not the first.
		//
		// That x is younger than the listing. Exception: if the round before has read the same x, it is not. That counts if a
		// server is mistaken about its directory's last change (ZOOKEEPER-3125).
		same := leader.Node == before.Node && leader.Token == before.Token
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || same || leader.Token <= upTo) {
			return leader, err
		}
	}
	return events.Leader{}, fmt.Errorf("%s changes as often as it is read", r.dir)
}

// candidate reads a candidate's node.
func (r leaderRead) candidate(node string) (events.Leader, error) {
	data, stat, err := r.c.getWatched(r.watcher, node)
	if err != nil {
		return events.Leader{}, err
	}
	return events.Leader{Node: path.Join(r.name, path.Base(node)), Data: data, Token: stat.Czxid}, nil
}

// getWatched reads a node, and subscribes the watcher to it.
func (c *client) getWatched(w *watcher, node string) (data []byte, stat *zk.Stat, err error) {
	arm, fires := w.ask(c, node)
	if !arm {
		return c.conn.Get(node)
	}
	data, stat, _, err = c.conn.GetW(node)
	c.looks.Answered(node, fires, err == nil)
	return data, stat, err
}

// first lists the directory and returns the first candidate's path, and the zxid up to which the listed nodes were created. If
// there is no candidate it watches for one, and returns nothing.
func (r leaderRead) first() (node string, upTo int64, _ error) {
	for range reaped {
		children, stat, err := r.c.conn.Children(r.dir)
		if err == nil && leads(children) == "" {
			children, stat, err = r.awaitCandidate()
		}
		if errors.Is(err, zk.ErrNoNode) {
			there, err := r.awaitDirectory()
			if err != nil || !there {
				return "", 0, err
			}
			continue
		}
		if err != nil {
			return "", 0, err
		}
		if name := leads(children); name != "" {
			return path.Join(r.dir, name), stat.Pzxid, nil
		}
		return "", 0, nil
	}
	return "", 0, fmt.Errorf("%s is deleted as often as it is made", r.dir)
}

// awaitCandidate lists the directory and watches for a change of its children.
func (r leaderRead) awaitCandidate() (children []string, stat *zk.Stat, err error) {
	arm, fires := r.ask(r.c, r.dir)
	if !arm {
		return r.c.conn.Children(r.dir)
	}
	children, stat, _, err = r.c.conn.ChildrenW(r.dir)
	r.c.looks.Answered(r.dir, fires, err == nil)
	return children, stat, err
}

// awaitDirectory watches for the creation of a directory that was not there, and reports whether it is there by now. If it is,
// the watch is on its data, which says nothing of the children.
func (r leaderRead) awaitDirectory() (there bool, err error) {
	arm, fires := r.ask(r.c, r.dir)
	if !arm {
		there, _, err = r.c.conn.Exists(r.dir)
		return there, err
	}
	there, _, _, err = r.c.conn.ExistsW(r.dir)
	r.c.looks.Answered(r.dir, fires, err == nil && !there)
	return there, err
}

// leads returns the child of a directory that leads, or nothing.
func leads(children []string) string {
	var queue []events.Name
	for _, child := range children {
		if n, ok := events.ParseName(child); ok {
			queue = append(queue, n)
		}
	}
	first, _ := recipes.Leads(queue)
	return first.Text
}
