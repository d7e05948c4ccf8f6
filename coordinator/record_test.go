package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestARecordThatIsNone: another client's node is left alone. If only the beginning of a
// record is understood, the Grant reports that part.
func TestARecordThatIsNone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		const theirs = "somebody's\nnode n\n"
		eventstest.Must(t, srv.Create(recordPath, []byte(theirs)))
		for range 2 {
			err := refused(detecting(c).Acquire(t.Context()))
			expectError(t, err, coordinator.ErrRecord, "with another client's node for a record the acquisition")
			expect(t, strings.Contains(fmt.Sprint(err), recordPath), "%v, want the path of the record", err)
			reader := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.DetectCrash()).Read()
			expectError(t, refused(reader.Acquire(t.Context())), coordinator.ErrRecord, "a reader")
		}
		expectData(t, srv, recordPath, theirs)
		expect(t, len(srv.Children(lockPath)) == 0, "there are %v, want only the other client's node", srv.Tree())
		eventstest.Must(t, srv.SetData(recordPath, []byte("zkgrant holder\nnode n\ntoken x\nof later times\nsince never")))
		a, g := coordtest.Hold(t, detecting(c))
		want := &events.Abandoned{Node: lockPath + "/n"}
		expect(t, reflect.DeepEqual(g.Abandoned, want), "of later times %+v is told, want %+v", g.Abandoned, want)
		finish(t, a)
		leftInOrder(t, srv, detecting(c))
	})
}

// TestRecordPermissions: if the record may not be created or read, the lock cannot be
// held. If it may not be removed, it stays, and Err reports that, but the lock is free.
func TestRecordPermissions(t *testing.T) {
	forEach(t, recordPermissions, func(t *testing.T, srv *zktest.Server, c recordPermission) {
		c.play(t, onTheDouble(t, srv))
	})
}

func TestRealRecordPermissions(t *testing.T) {
	for name, c := range recordPermissions {
		t.Run(name, func(t *testing.T) { c.play(t, onARealServer(t)) })
	}
}

type recordPermission struct {
	above  int32 // permissions of the parent of the lock's directory
	record int32 // permissions of an existing record, if there is one
	held   bool
}

var recordPermissions = map[string]recordPermission{
	"nothing may be made":  {above: zk.PermRead | zk.PermDelete},
	"may not be read":      {above: zk.PermAll, record: zk.PermWrite},
	"may not be removed":   {above: zk.PermRead | zk.PermCreate, held: true},
	"may be made and read": {above: zk.PermRead | zk.PermCreate | zk.PermDelete, held: true},
}

func (c recordPermission) play(t *testing.T, s *site) {
	makeDir(t, s, zk.PermAll)
	if c.record != 0 {
		_, err := s.raw.Create(s.root+recordPath, []byte("zkgrant holder\nnode n\n\n"), zk.FlagPersistent, andReader(c.record))
		eventstest.Must(t, err)
	}
	_, err := s.raw.SetACL(s.root+path.Dir(lockPath), zk.WorldACL(c.above|zk.PermAdmin), -1)
	eventstest.Must(t, err)
	holds := s.connect()
	a := detecting(holds).Acquire(context.Background())
	g, err := a.Wait(coordtest.RealContext(t))
	expect(t, (err == nil) == c.held && (err == nil || errors.Is(err, coordinator.ErrNoAuth)),
		"Wait = %+v, %v; want a grant: %v, or ErrNoAuth", g, err, c.held)
	a.Release()
	stays := c.held && c.above&zk.PermDelete == 0
	if err := coordtest.EndOf(t, a); c.held {
		expectError(t, err, map[bool]error{true: coordinator.ErrNoAuth}[stays], "released, it")
	}
	coordtest.Queued(t, s.raw, s.root+lockPath, 0)
	expect(t, holds.Nodes().Nodes == 0, "then %d nodes count, want none", holds.Nodes().Nodes)
	there, _, err := s.raw.Exists(s.root + recordPath)
	expect(t, err == nil && there == (stays || c.record != 0), "then the record stands: %v, %v", there, err)
}
