package main

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func TestASessionCountsItsWrites(t *testing.T) {
	t.Parallel()
	s := &session{fates: make(map[string]int64)}
	s.OnEvent(events.Grant{Node: "/a/1"})
	s.begin(time.Now())
	s.OnRequest(coordinator.RequestInfo{Op: "ping"})
	s.OnRequest(coordinator.RequestInfo{Op: writeOp, Err: zk.ErrConnectionClosed})
	if r := s.report(verbTimes); r.Writes != 0 || r.Back != 0 {
		t.Errorf("a ping and a write without an answer: %+v, want neither counted", r)
	}
	s.OnRequest(coordinator.RequestInfo{Op: writeOp, Duration: time.Hour})
	if r := s.report(verbTimes); r.Writes != 1 || r.Times[0] != time.Hour.Microseconds() || r.Back != 0 {
		t.Errorf("a write that was sent before the mark: %+v, want it counted, and no session back", r)
	}
	s.OnRequest(coordinator.RequestInfo{Op: writeOp})
	first := s.report(verbLook)
	s.OnRequest(coordinator.RequestInfo{Op: writeOp})
	if last := s.report(verbLook); first.Back != 1 || last.LastBack != first.LastBack || last.Writes != 3 {
		t.Errorf("writes that were sent after the mark: %+v, then %+v; want it back with the first", first, last)
	}
}

func TestASessionsGapOutlivesAMark(t *testing.T) {
	t.Parallel()
	s := &session{fates: make(map[string]int64)}
	s.OnEvent(events.Grant{Node: "/a/1"})
	s.answered = time.Now().Add(-time.Hour)
	s.begin(time.Now())
	if gap := time.Duration(s.report(verbLook).Gap); gap < time.Hour {
		t.Errorf("the gap is %v before an answer, want an hour", gap)
	}
	s.OnRequest(coordinator.RequestInfo{Op: writeOp})
	if gap := time.Duration(s.report(verbLook).Gap); gap < time.Hour {
		t.Errorf("the gap is %v after an answer, want an hour", gap)
	}
	s.OnEvent(events.Lost{})
	s.begin(time.Now())
	s.answered = time.Now().Add(-time.Hour)
	if r := s.report(verbFates); r.Gap != 0 || r.Holding != 0 || r.Lost != 1 {
		t.Errorf("after a loss: %+v, want no gap while nothing is held", r)
	}
}
