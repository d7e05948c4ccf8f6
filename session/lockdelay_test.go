package session_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockRecord = sessiontest.Dir + session.RecordSuffix

// asksRecord claims, and returns the answer.
func asksRecord[T recipes.Input](s *sessiontest.Seat, node string, record recipes.Recording) T {
	s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}, Record: record})
	return sessiontest.AnswerOf[T](s)
}

// TestAMarkIsForTheRecordThatWasRead: 1. A reader reads the record, which bears no mark; 2. another one marks it, and time passes; 3. the
// first one's mark comes too late. So it reads again, and finds for how long the record has been marked.
func TestAMarkIsForTheRecordThatWasRead(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Kind: events.KindRead, Delay: 10 * time.Second})
		node := s.Makes(1).Node.Text
		const text = "zkgrant holder\nnode n\ntoken 0x1\nsince 2026-01-01T00:00:00Z\n"
		r.Must(r.Server.Create(lockRecord, []byte(text+"\n")))
		late := r.Once(zktest.Delay(2*time.Second), func(q zktest.Request) bool {
			return q.Op == zktest.OpGetData && q.Path == lockRecord
		})
		s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}, Record: recipes.RecordRead})
		r.Until("the record has been read", late)
		r.Must(r.Server.SetData(lockRecord, []byte(text+"marked\n\n")))
		if got := sessiontest.AnswerOf[recipes.Delayed](s); got.For != 8*time.Second {
			t.Errorf("a mark that comes 2s behind another one has its seat wait for %v, want 8s", got.For)
		}
	})
}

// TestAMarkOfAClockThatWasPutBackEnds: the delay is at most twice as long.
func TestAMarkOfAClockThatWasPutBackEnds(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Detect: true, Delay: 10 * time.Second})
		node := s.Makes(1).Node.Text
		for _, at := range []int64{time.Now().Add(time.Hour).UnixMilli(), math.MaxInt64, math.MinInt64, -1e13} {
			r.Must(r.Server.Create(lockRecord, fmt.Appendf(nil, "zkgrant holder\nnode n\nmarked %d\n\n", at)))
			waited := time.Duration(0)
			for range 3 {
				s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}, Record: recipes.RecordMade})
				delayed, is := s.Answer().(recipes.Delayed)
				if !is {
					break
				}
				waited += delayed.For
				time.Sleep(delayed.For)
			}
			if waited > 20*time.Second {
				t.Errorf("a mark of %d ms is waited for %v, want 20s at most", at, waited)
			}
			r.Must(r.Server.Delete(lockRecord))
		}
	})
}

// TestARecordWithoutRoomForItsDelayIsRefused, and nothing is written: servers would drop the connection over it, again and again.
func TestARecordWithoutRoomForItsDelayIsRefused(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Detect: true, Delay: time.Second})
		node := s.Makes(1).Node.Text
		r.Must(r.Server.Create(lockRecord, append([]byte("zkgrant holder\nnode n\n\n"), make([]byte, session.MaxRequest-200)...)))
		s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}, Record: recipes.RecordMade})
		if in := s.Answer(); in != (recipes.Refused{Epoch: 1, Op: recipes.OpClaim}) || !errors.Is(s.LastErr(), session.ErrTooLarge) {
			t.Errorf("a record of nearly all that a request holds is answered %+v, %v; want a refusal with ErrTooLarge", in, s.LastErr())
		}
	})
}

// TestARecordsDelayIsBounded, whatever somebody has written there.
func TestARecordsDelayIsBounded(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Detect: true})
		node := s.Makes(1).Node.Text
		for delay, want := range map[string]time.Duration{"10000h": session.MaxLockDelay, "3s": 3 * time.Second} {
			r.Must(r.Server.Create(lockRecord, []byte("zkgrant holder\nnode n\ndelay "+delay+"\n\n")))
			if got := asksRecord[recipes.Delayed](s, node, recipes.RecordMade); got.For != want {
				t.Errorf("a record with a delay of %s is waited for %v, want %v", delay, got.For, want)
			}
			r.Must(r.Server.Delete(lockRecord))
		}
		for _, delay := range []string{"-1s", "0s", "soon", ""} {
			r.Must(r.Server.Create(lockRecord, []byte("zkgrant holder\nnode n\ndelay "+delay+"\n\n")))
			if got := asksRecord[recipes.Claimed](s, node, recipes.RecordMade); got.Abandoned == nil {
				t.Errorf("a record with a delay of %q tells of %+v, want a crash", delay, got.Abandoned)
			}
			if data, _ := r.Server.Data(lockRecord); strings.Contains(string(data), "taken") {
				t.Errorf("a record without a delay is taken over: %s", data)
			}
			r.Must(r.Server.Delete(lockRecord))
		}
	})
}
