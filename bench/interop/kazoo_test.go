package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// TestKazoosLockNeedsItsDirectory: a lock object of kazoo's is used again after the directory was empty for long enough to be reaped, if
// it is a container. Kazoo makes sure of the directory only once. For that reason, contenders of ours with kazoo's names make no
// containers. Other directories of ours are gone, and kazoo fails there.
func TestKazoosLockNeedsItsDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct {
		ours  form
		stays bool
	}{{formMutexKazoo, true}, {formReadKazoo, true}, {formMutex, false}}) {
		t.Run(string(c.ours), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			ours, kazoos := s.connect(zkgrant, c.ours), s.connect(kazoo, formLock)
			s.visits(ours)
			s.visits(kazoos)
			s.clears(s.dir)
			s.reaped()
			s.reaped() // the first removal may come before that of other directories found empty together with it
			if there, err := s.arena.witness.exists(s.dir); err != nil || there != c.stays {
				t.Fatalf("the directory is there: %v, %v; want %v", there, err, c.stays)
			}
			s.acquire(kazoos)
			if c.stays {
				s.passes(kazoos)
				return
			}
			ctx, cancel := s.patience()
			defer cancel()
			if n, err := kazoos.next(ctx, newsFail); err != nil || !strings.HasPrefix(n.text, "NoNodeError") {
				t.Errorf("without the directory kazoo said %s %s, %v; want a NoNodeError", n.word, n.text, err)
			}
		})
	}
}

// reaped returns when the server has looked for empty containers, and removed one made for that.
func (s *stage) reaped() {
	s.t.Helper()
	s.opened++
	w, bait := s.arena.witness, fmt.Sprintf("%s-bait-%d", s.dir, s.opened)
	if _, err := w.conn.CreateContainer(bait, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
		s.t.Fatal(err)
	}
	for _, err := range []error{w.make(bait + "/child"), w.remove(bait + "/child")} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.until(func() error {
		there, err := w.exists(bait)
		if err == nil && there {
			err = fmt.Errorf("%s is still there", bait)
		}
		return err
	})
}

// TestKazoosReaderWaitsForLaterWriters shows why kazoo's readers need another version than 2.8, and none of ours. When the writer ahead
// wakes a reader, the reader waits for the last writer of all, which came later and waits for the reader. This happens among kazoo's own
// contenders.
func TestKazoosReaderWaitsForLaterWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, reader, last role }{
		{role{kazoo, formWrite}, role{kazoo, formRead}, role{kazoo, formWrite}},
		{role{zkgrant, formWriteKazoo}, role{kazoo, formRead}, role{zkgrant, formWriteKazoo}},
		{role{kazoo, formWrite}, role{zkgrant, formReadKazoo}, role{kazoo, formWrite}},
	} {
		t.Run(fmt.Sprintf("%v, %v, %v", c.first, c.reader, c.last), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			var all []*contender
			for _, r := range []role{c.first, c.reader, c.last} {
				all = append(all, s.connect(r.family, r.form))
			}
			s.enters(all[0])
			s.queueUp(all[1])
			s.queueUp(all[2])
			s.goes(all[0])
			s.silent(all[1], all[2])
			s.leaves(all[0])
			if c.reader.family == kazoo && waitsForAll(t, s.arena.guests.kazoo.Version) {
				s.silent(all[1], all[2]) // both stay silent
				return
			}
			s.passes(all[1])
			s.passes(all[2])
		})
	}
}

// waitsForAll tells whether readers of that version wait for writers that came later.
func waitsForAll(t *testing.T, version string) bool {
	t.Helper()
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("the version of kazoo is %q: %v", version, err)
	}
	return major < 2 || major == 2 && minor < 9
}
