package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

var trioAddresses = []string{"one:1", "two:2", "three:3"}

// lateTrial holds a lock, and then every answer of every server is late by so much.
// It reports whether the lock is kept for 20 timeouts. If it is lost, the session has to
// be alive when the loss is told.
func lateTrial(t *testing.T, servers string, timeout, tick, told, late, phase time.Duration) (kept bool) {
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
		tr := newTrio(srv)
		c := tr.connectTo(t, servers, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(told))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		session := c.SessionID()
		time.Sleep(3*timeout + phase)
		tr.slow(late, trioAddresses...)
		select {
		case <-a.Lost():
			if !slices.Contains(srv.Sessions(), session) {
				t.Errorf("with answers %v late the loss is told when the session is over, want it before", late)
			}
		case <-time.After(20 * timeout):
			kept = a.Valid()
		}
		tr.slow(0, trioAddresses...)
	})
	return kept
}

// TestSlowAnswersCostNoLock: up to (0.95 T - 5/8 tick - 2 probe intervals) / 2, with one
// server or three. A loss is told in time all the same.
func TestSlowAnswersCostNoLock(t *testing.T) {
	trials := eventstest.Amount(5, 20)
	const ms = time.Millisecond
	for _, of := range []struct{ timeout, tick, told, late, lost time.Duration }{
		{10 * time.Second, 2 * time.Second, 0, 3100 * ms, 3600 * ms},
		{10 * time.Second, 500 * ms, 500 * ms, 3550 * ms, 4600 * ms},
		{4 * time.Second, 2 * time.Second, 0, 850 * ms, 1300 * ms}, // two ticks
	} {
		for _, servers := range []string{"one:1", trioServers} {
			t.Run(fmt.Sprintf("T = %v, tick %v, told %v, %s", of.timeout, of.tick, of.told, servers), func(t *testing.T) {
				for trial := range trials {
					phase := of.timeout/10*time.Duration(trial)/time.Duration(trials) + 37*time.Microsecond
					if !lateTrial(t, servers, of.timeout, of.tick, of.told, of.late, phase) {
						t.Errorf("phase %v: the lock is lost with answers %v late, want it kept", phase, of.late)
					}
					if lateTrial(t, servers, of.timeout, of.tick, of.told, of.lost, phase) {
						t.Errorf("phase %v: the lock is kept with answers %v late; is the documented latency too small?", phase, of.lost)
					}
				}
			})
		}
	}
}

// TestSlowAnswersCostAProbeAnInterval, as quick ones do: not more.
func TestSlowAnswersCostAProbeAnInterval(t *testing.T) {
	const timeout, late = 10 * time.Second, 3 * time.Second
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		tr := newTrio(srv)
		c := tr.connectTo(t, "one:1", coordinator.WithSessionTimeout(timeout))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		tr.slow(late, trioAddresses...)
		time.Sleep(3 * timeout)
		before := srv.Requests(zktest.OpMulti)
		time.Sleep(6 * timeout)
		if n := srv.Requests(zktest.OpMulti) - before; n < 59 || n > 61 || !a.Valid() {
			t.Errorf("%d probes in a minute, valid: %v; want one a second, and the lock held", n, a.Valid())
		}
		tr.slow(0, trioAddresses...)
	})
}

// TestAHaltOfTheOnlyServerThatAnswers, 2.6 s long, costs no connection, no lock and no
// time beyond it: the other two of three refuse, and hanging up would lose the way back.
func TestAHaltOfTheOnlyServerThatAnswers(t *testing.T) {
	const timeout, halt = 10 * time.Second, 2600 * time.Millisecond
	for name, refuse := range map[string]func(tr *trio, address string){
		"refuse":        func(tr *trio, address string) { tr.ways[address].Refuse(true) },
		"are silent":    (*trio).hang,
		"do not answer": func(tr *trio, address string) { tr.ways[address].Partition() },
	} {
		t.Run(name, func(t *testing.T) {
			trials := eventstest.Amount(5, 60)
			for trial := range trials {
				eventstest.Bubble(t, func(t *testing.T) {
					srv := zktest.Start(t, zktest.Followers())
					tr := newTrio(srv)
					c := tr.connect(t, coordinator.WithSessionTimeout(timeout))
					a, _ := coordtest.Hold(t, c.Mutex(lockPath))
					time.Sleep(3*timeout + timeout/10*time.Duration(trial)/time.Duration(trials) + 37*time.Microsecond)
					present, dials := tr.present(), tr.dials()
					for _, address := range trioAddresses {
						if address != present {
							refuse(tr, address)
						}
					}
					tr.ways[present].Partition()
					time.Sleep(halt)
					tr.ways[present].Heal()
					begun := time.Now()
					coordtest.Hold(t, c.Mutex("/locks/other"))
					if took := time.Since(begun); took > timeout/100 {
						t.Errorf("after the halt a lock is granted after %v, want at once", took)
					}
					time.Sleep(3 * timeout)
					if n := tr.dials() - dials; n > 0 || !a.Valid() {
						t.Errorf("the session connects %d times again, the lock valid: %v; want 0, and the lock held", n, a.Valid())
					}
				})
			}
		})
	}
}

// TestALateWordOfAnotherServer: in one silence the others are asked, and it ends before
// one answers. The word comes in the next silence, and counts for nothing: who answers
// that late need not be quicker than the server that is silent.
func TestALateWordOfAnotherServer(t *testing.T) {
	const timeout = 10 * time.Second
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Followers())
		tr := newTrio(srv)
		c := tr.connect(t, coordinator.WithSessionTimeout(timeout))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(3*timeout + 37*time.Microsecond)
		present, dials, questions := tr.present(), tr.dials(), tr.questions()
		for _, address := range trioAddresses {
			if address != present {
				tr.ways[address].Lag(faultnet.Down, timeout*3/10)
			}
		}
		for tr.questions() == questions { // the first silence ends a moment after the question
			tr.ways[present].Partition(faultnet.Down)
			time.Sleep(timeout / 100)
		}
		tr.ways[present].Heal()
		for _, address := range trioAddresses {
			if address != present {
				tr.ways[address].Lag(faultnet.Down, timeout*3/10)
			}
		}
		time.Sleep(timeout / 20)
		tr.slow(timeout*27/100, present)
		time.Sleep(2 * timeout)
		if n := tr.dials() - dials; n > 0 || !a.Valid() {
			t.Errorf("the session connects %d times again, the lock valid: %v; want 0, and the lock held", n, a.Valid())
		}
		tr.slow(0, trioAddresses...)
	})
}
