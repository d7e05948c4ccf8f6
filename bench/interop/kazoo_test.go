package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestKazoosLockNeedsItsDirectory: a lock object of kazoo's is used again after the
// directory was empty for long enough to be reaped, if it is a container. Kazoo makes
// sure of the directory only once. For that reason, contenders of ours with kazoo's names
// make no containers. Other directories of ours are gone, and kazoo fails there.
func TestKazoosLockNeedsItsDirectory(t *testing.T) {
	t.Parallel()
	scenes(t, []form{formMutexKazoo, formReadKazoo, formMutex}, func(s *stage, form form) {
		stays := form != formMutex
		ours, kazoos := s.connect(zkgrant, form), s.connect(kazoo, formLock)
		note := s.dir + "/config" // no contender's; with it the directory stays while kazoo looks for it the first time
		s.enters(ours)
		eventstest.Must(s.t, s.arena.witness.make(note))
		s.leaves(ours)
		s.visits(kazoos)
		eventstest.Must(s.t, s.arena.witness.remove(note))
		s.clears()
		s.reaped()
		s.reaped() // the first removal may come before that of other directories found empty together with it
		if there, err := s.arena.witness.exists(s.dir); err != nil || there != stays {
			s.t.Fatalf("the directory is there: %v, %v; want %v", there, err, stays)
		}
		s.acquire(kazoos)
		if stays {
			s.passes(kazoos)
			return
		}
		s.must(func(ctx context.Context) error {
			n, err := kazoos.next(ctx)
			if n.word != newsFail || !strings.HasPrefix(n.text, "NoNodeError") {
				err = fmt.Errorf("without the directory kazoo said %+v, %w; want a NoNodeError", n, err)
			}
			return err
		})
	})
}

// reaped returns when the server has looked for empty containers, and removed one made
// for that.
func (s *stage) reaped() {
	s.t.Helper()
	s.opened++
	w, bait := s.arena.witness, fmt.Sprintf("%s-bait-%d", s.dir, s.opened)
	_, err := w.conn.CreateContainer(bait, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	eventstest.Must(s.t, err)
	eventstest.Must(s.t, errors.Join(w.make(bait+"/child"), w.remove(bait+"/child")))
	s.until(func() error {
		there, err := w.exists(bait)
		if err == nil && there {
			err = fmt.Errorf("%s is still there", bait)
		}
		return err
	})
}

// TestKazoosReaderWaitsForLaterWriters shows why kazoo's readers need another version
// than 2.8, and none of ours. When the writer ahead wakes a reader, the reader waits for
// the last writer of all, which came later and waits for the reader. This happens among
// kazoo's own contenders.
func TestKazoosReaderWaitsForLaterWriters(t *testing.T) {
	t.Parallel()
	writer, ourWriter := role{kazoo, formWrite}, role{zkgrant, formWriteKazoo}
	for _, each := range [][3]role{
		{writer, {kazoo, formRead}, writer}, {ourWriter, {kazoo, formRead}, ourWriter}, {writer, {zkgrant, formReadKazoo}, writer},
	} {
		scenes(t, [][3]role{each}, func(s *stage, roles [3]role) {
			var all []*contender
			for _, r := range roles {
				all = append(all, s.connect(r.family, r.form))
			}
			s.enters(all[0])
			s.queueUp(all[1])
			s.queueUp(all[2])
			s.silent(all[1], all[2])
			s.leaves(all[0])
			if roles[1].family == kazoo && !ensemble.Since(version(s.t, kazoo), readersFixed) {
				s.silent(all[1], all[2]) // both stay silent
				return
			}
			s.passes(all[1])
			s.passes(all[2])
		})
	}
}
