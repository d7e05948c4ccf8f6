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

// TestKazoosLockNeedsItsDirectory: a kazoo lock object is used again after its directory
// was empty for long enough to be reaped, if it is a container. kazoo ensures only once
// that the directory exists. Therefore zkgrant's contenders with kazoo's names do not
// create containers. zkgrant's other directories are gone, and kazoo fails there.
func TestKazoosLockNeedsItsDirectory(t *testing.T) {
	t.Parallel()
	scenes(t, []form{formMutexKazoo, formReadKazoo, formMutex}, func(s *stage, form form) {
		stays := form != formMutex
		ours, kazoos := s.connect(zkgrant, form), s.connect(kazoo, formLock)
		note := s.dir + "/config" // not a contender; keeps the directory until kazoo has seen it once
		s.enters(ours)
		eventstest.Must(s.t, s.arena.witness.make(note))
		s.leaves(ours)
		s.visits(kazoos)
		eventstest.Must(s.t, s.arena.witness.remove(note))
		s.remain(0)
		s.reaped()
		s.reaped() // again, because the server may remove the bait before other empty directories
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

// reaped waits until the server has reaped empty containers: it creates one as bait and
// waits until that is gone.
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

// TestKazoosReaderWaitsForLaterWriters shows a bug in the readers of kazoo 2.8, which
// does not depend on zkgrant. When the writer ahead of a reader has left, the reader
// waits for the very last writer, which came later and waits for the reader. This also
// happens among kazoo's own contenders.
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
				s.silent(all[1], all[2]) // a deadlock
				return
			}
			s.passes(all[1])
			s.passes(all[2])
		})
	}
}
