package session_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockRecord = lockDir + session.RecordSuffix

// recording returns a seat with a node, and its claim with a record.
func recording(r *rig, p session.Place, record recipes.Recording) (*seat, recipes.Claim) {
	r.Helper()
	p.Dir = lockDir
	s := r.SeatedAt(p)
	return s, recipes.Claim{Epoch: 1, Node: s.Makes(1).Node, Record: record}
}

// TestAMarkIsForTheRecordThatWasRead:
//
//  1. A reader reads the record, which has no mark.
//  2. Another one marks it, and time passes.
//  3. The first reader's mark comes too late. So it reads again, and finds since when the
//     record has been marked.
func TestAMarkIsForTheRecordThatWasRead(t *testing.T) {
	inSession(t, func(r *rig) {
		s, claim := recording(r, session.Place{Kind: events.KindRead, Delay: 10 * time.Second}, recipes.RecordRead)
		const text = "zkgrant holder\nnode n\ntoken 0x1\nsince 2026-01-01T00:00:00Z\n"
		r.Make(lockRecord, text+"\n")
		reads := func(q zktest.Request) bool { return q.Op == zktest.OpGetData && q.Path == lockRecord }
		late := r.Once(zktest.Delay(2*time.Second), reads)
		s.Do(claim)
		r.Until("the record has been read", late)
		r.Must(r.Server.SetData(lockRecord, []byte(text+"marked\n\n")))
		equal(t, answerOf[recipes.Delayed](s).For, 8*time.Second, "the wait of a mark 2s behind another one")
	})
}

// TestAMarkOfAClockThatWasPutBackEnds: the delay is at most twice as long as usual.
func TestAMarkOfAClockThatWasPutBackEnds(t *testing.T) {
	inSession(t, func(r *rig) {
		s, claim := recording(r, session.Place{Delay: 10 * time.Second}, recipes.RecordMade)
		for _, at := range []int64{time.Now().Add(time.Hour).UnixMilli(), math.MaxInt64, math.MinInt64, -1e13} {
			r.Make(lockRecord, fmt.Sprintf("zkgrant holder\nnode n\nmarked %d\n\n", at))
			waited := time.Duration(0)
			for range 3 {
				s.Do(claim)
				delayed, is := s.Answer().(recipes.Delayed)
				if !is {
					break
				}
				waited += delayed.For
				time.Sleep(delayed.For)
			}
			expect(t, waited <= 20*time.Second,
				"a mark of %d ms is waited for %v, want 20s at most", at, waited)
			r.Must(r.Server.Delete(lockRecord))
		}
	})
}

// TestARecordWithoutRoomForItsDelayIsRefused: nothing is written, because servers would
// drop the connection at each attempt.
func TestARecordWithoutRoomForItsDelayIsRefused(t *testing.T) {
	inSession(t, func(r *rig) {
		s, claim := recording(r, session.Place{Delay: time.Second}, recipes.RecordMade)
		r.Make(lockRecord, "zkgrant holder\nnode n\n\n"+strings.Repeat("\x00", session.MaxRequest-200))
		s.Asks(claim, recipes.Refused{Epoch: 1, Op: recipes.OpClaim})
		eventstest.ErrorIs(t, s.LastErr(), session.ErrTooLarge, "a record of nearly all that a request holds")
	})
}

// TestARecordsDelayIsBounded: that holds whatever the record says.
func TestARecordsDelayIsBounded(t *testing.T) {
	inSession(t, func(r *rig) {
		s, claim := recording(r, session.Place{}, recipes.RecordMade)
		for _, c := range []struct {
			delay string
			want  time.Duration
		}{{"10000h", session.MaxLockDelay}, {"3s", 3 * time.Second}, {"-1s", 0}, {"0s", 0}, {"soon", 0}, {"", 0}} {
			delay, want := c.delay, c.want
			r.Make(lockRecord, "zkgrant holder\nnode n\ndelay "+delay+"\n\n")
			if want > 0 {
				equal(t, ask[recipes.Delayed](s, claim).For, want, "the wait for a record with a delay of %s", delay)
			} else if got := ask[recipes.Claimed](s, claim); got.Abandoned == nil {
				t.Errorf("a record with a delay of %q tells of %+v, want a crash", delay, got.Abandoned)
			}
			if data, _ := r.Server.Data(lockRecord); want == 0 && strings.Contains(string(data), "taken") {
				t.Errorf("a record without a delay is taken over: %s", data)
			}
			r.Must(r.Server.Delete(lockRecord))
		}
	})
}

// TestALockDelayEndsThoughAnEarlierOneEndsMeanwhile:
//
//  1. The time of a lock-delay is over, while the loop is busy.
//  2. The machine is in the next session, and waits for another lock-delay.
//  3. The loop handles the end of the first one.
func TestALockDelayEndsThoughAnEarlierOneEndsMeanwhile(t *testing.T) {
	inSession(t, func(r *rig) {
		const delay = time.Second
		s, _ := recording(r, session.Place{Delay: delay}, recipes.RecordMade)
		pause := func(epoch recipes.Epoch) { s.Seat.Do(recipes.Pause{Epoch: epoch, For: delay}) }
		r.Session.Loop().Post(func() {
			pause(1)
			time.Sleep(2 * delay)
			pause(2)
		})
		time.Sleep(4 * delay)
		want := []recipes.Input{recipes.Paused{Epoch: 1}, recipes.Paused{Epoch: 2}}
		eventstest.Equal(t, s.Fresh(), want, "the seat is told")
	})
}
