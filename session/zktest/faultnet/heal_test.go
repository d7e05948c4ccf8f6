package faultnet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// What is held for a time is let go before it is over, and what lags arrives when everything heals.
func TestWhatIsHeldOrLagsIsLetGo(t *testing.T) {
	holding := func(f faultnet.Frame) faultnet.Verdict {
		if f.Op == zktest.OpCreate && f.Direction == faultnet.Up {
			return faultnet.HoldFor(time.Hour)
		}
		return faultnet.Pass()
	}
	for name, tt := range map[string]struct {
		rule  faultnet.Rule
		lag   time.Duration
		letGo func(*faultnet.Network)
		there bool
	}{
		"held, released":   {holding, 0, (*faultnet.Network).Release, true},
		"held, healed":     {holding, 0, (*faultnet.Network).Heal, true},
		"lagging, healed":  {nil, time.Hour, (*faultnet.Network).Heal, true},
		"lagging, release": {nil, time.Hour, (*faultnet.Network).Release, false}, // which is not about the lag
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.rule, func(r *rig) {
				c := r.session()
				r.net.Lag(faultnet.Up, tt.lag)
				c.create("/1")
				synctest.Wait()
				if r.srv.Exists("/1") {
					t.Fatal("before the network lets go the node is there, want the create on its way")
				}
				tt.letGo(r.net)
				synctest.Wait()
				if got := r.srv.Exists("/1"); got != tt.there {
					t.Errorf("after the network has let go the node is there: %t, want %t", got, tt.there)
				}
			})
		})
	}
}

// Whoever waits for the end of a partition to connect hears of what comes instead.
func TestADialInAPartitionEnds(t *testing.T) {
	for name, end := range map[string]func(*faultnet.Network){
		"refused": func(n *faultnet.Network) { n.Refuse(true) },
		"closed":  (*faultnet.Network).Close,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.net.Partition()
				ended := make(chan error, 1)
				go func() {
					_, err := r.net.Dial(context.Background(), "tcp", "x:1")
					ended <- err
				}()
				synctest.Wait()
				start := time.Now()
				end(r.net)
				if err := <-ended; err == nil || time.Since(start) != 0 {
					t.Errorf("the dial that waits ends with %v after %v, want an error at once", err, time.Since(start))
				}
			})
		})
	}
}
