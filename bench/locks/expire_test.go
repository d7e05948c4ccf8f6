package main

import (
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// The loss of a session that is ended on a real server is heard of on its own connection, long before its silence is noticed.
func TestRealExpiryIsHeardOf(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	c := contestantOf(t, keyOurs, ensemble.Start(t, 1).Addr(0))
	const noticed = 2 * sessionTimeout / 3
	for range 3 {
		for _, q := range []question{{verb: askOpen, n: 1}, {verb: askExpire, path: "/test/expired", n: 1000}, {verb: askClose}} {
			got, err := c.ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if q.verb == askExpire {
				t.Logf("last loss %.1f ms after the first", float64(got[0])/1e6)
				if got[0] > noticed.Nanoseconds()/2 {
					t.Errorf("the last loss comes %d ns after the first, want much less than the %v after which silence is noticed", got[0], noticed)
				}
			}
		}
	}
}
