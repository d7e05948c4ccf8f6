package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about observers of elections, candidates or not.

// Observe delivers the leader of the election at the path, and then each later leader,
// until ctx ends or the session is closed. Then it closes the channel. It also does so if
// a server refuses to read the path or the leader's node. The channel has room for one
// value; a later one replaces one that was not read.
//
// Values come in order, even across sessions. While there is no connection nothing comes,
// and the last value stands.
func (s *Session) Observe(ctx context.Context, dir string) <-chan events.Leader {
	return s.leaders.observe(ctx, func(seen []*events.Leader) events.Leader {
		own := *seen[0]
		own.Data = bytes.Clone(own.Data) // the reader's
		return own
	}, QueuePlace{Path: dir})
}

// sameWord reports whether the two say the same.
func sameWord(a, b events.Leader) bool {
	return a.Node == b.Node && a.Token == b.Token && bytes.Equal(a.Data, b.Data)
}

// leaderWatch reads the leader of an election.
//
// The first candidate leads, and no other one comes first before its node is gone. So
// that node is watched, and nothing else: a candidate that joins behind it, or leaves
// there, wakes no observer. If there is no candidate the children of the directory are
// watched. If there is no directory its creation is watched.
//
// Deliveries are in order. Within a session readings do not go back, and the first
// reading of the next session is not behind them either: a server makes a session by a
// transaction, and has executed all before it when it answers.
type leaderWatch struct {
	*watcher

	dir, name string // with the chroot and without it
	word      events.Leader
}

func newLeaderWatch(w *watcher, at QueuePlace) subject[events.Leader] {
	return &leaderWatch{watcher: w, dir: under(w.session.chroot, at.Path), name: at.Path}
}

// read returns the leader, and watches what may change that.
func (w *leaderWatch) read(_ context.Context, c *client) (events.Leader, error) {
	word, err := w.find(c)
	if err != nil {
		return word, err
	}
	wish, _ := read(word.Data)
	word.Data = UserData(word.Node, word.Data)
	if wish.stands && !wish.bounded && word.Node == w.word.Node && word.Token == w.word.Token {
		word.Data = w.word.Data // the wish has taken the place of the leader's word
	}
	w.word = word
	return word, nil
}

// find returns the leader as its node says it, and watches that node, or else the
// directory.
func (w *leaderWatch) find(c *client) (events.Leader, error) {
	gone := w.begin()
	if w.word.Node != "" && !gone {
		// The last leader still leads while its node stands, unless another node has its
		// name now, which need not lead.
		leader, err := w.candidate(c, path.Base(w.word.Node))
		if err == nil && leader.Token == w.word.Token || err != nil && !errors.Is(err, zk.ErrNoNode) {
			return leader, err
		}
	}
	var leader events.Leader
	for range maxTries {
		// No watch while there is a candidate: the directory changes with each that
		// joins.
		children, stat, err := c.conn.Children(w.dir)
		if err == nil && leads(children) == "" {
			var dir snapshot
			dir, err = c.readW(ofChildren, w.dir, w)
			children, stat = dir.children, dir.stat
		}
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := w.awaits(c, w.dir); missing || err != nil {
				return events.Leader{}, err
			}
			continue // the directory was made meanwhile
		}
		first := leads(children)
		if err != nil || first == "" {
			return events.Leader{}, err
		}
		before := leader
		leader, err = w.candidate(c, first)
		// A name without a GUID can come again:
		//
		//  1. x is listed.
		//  2. The directory goes, and is made again.
		//  3. Another x comes, and is not the first.
		//
		// That x is younger than the listing, unless the round before has read the same
		// x. The latter counts if a server is mistaken about its directory's last change
		// (ZOOKEEPER-3125).
		same := leader.Node == before.Node && leader.Token == before.Token
		if !errors.Is(err, zk.ErrNoNode) && (err != nil || same || leader.Token <= stat.Pzxid) {
			return leader, err
		}
	}
	return events.Leader{}, fmt.Errorf("%s changes as often as it is read", w.dir)
}

// candidate reads a candidate's node, with a watch on it.
func (w *leaderWatch) candidate(c *client, name string) (events.Leader, error) {
	node, err := c.readW(ofData, path.Join(w.dir, name), w)
	if err != nil {
		return events.Leader{}, err
	}
	return events.Leader{Node: path.Join(w.name, name), Data: node.data, Token: node.stat.Czxid}, nil
}

// leads returns the child of a directory that leads, or nothing.
func leads(children []string) string {
	first, _ := recipes.Leads(namesOf(children, false).queue)
	return first.Text
}
