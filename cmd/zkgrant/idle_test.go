//go:build unix

package main

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestANodeThatMayBeIdleIsShownAsSuch(t *testing.T) { idleOn(t, zktest.Start(t).Addr()) }

func testRealIdle(t *testing.T, e *ensemble.Ensemble) { idleOn(t, e.Connect()) }

// idleOn looks at two nodes: that of a cached lock, which stays when its holder has released, and that of a lock that is held.
func idleOn(t *testing.T, servers string) {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers, coordinator.WithSessionTimeout(10*time.Second))
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	cached, data := c.Mutex("/idle/cached", coordinator.Cached()), coordinator.WithData([]byte("host-7"))
	nothing := func(context.Context, events.Grant) error { return nil }
	for range 2 { // the second node stays
		eventstest.Must(t, cached.Do(t.Context(), nothing, data))
	}
	held := c.Mutex("/idle/held").Acquire(t.Context(), data)
	defer held.Release()
	eventstest.Receive(t, held.Granted(), "the lock")

	env := []string{"ZKGRANT_SERVERS=" + servers}
	for _, want := range []struct {
		args    []string
		pattern string
	}{
		{[]string{"queue", "/idle/cached"}, `(?m)^holds, may be idle +lock .* host-7$`},
		{[]string{"queue", "/idle/held"}, `(?m)^holds +lock .* host-7$`},
		{[]string{"queue", "--json", "/idle/cached"}, `"holding":true,.*"may_be_idle":true,`},
		{[]string{"queue", "--json", "/idle/held"}, `"token":\d+,"data"`},
		{[]string{"ls", "/idle"}, `/idle/cached +mutex +host-7, may be idle +0\n/idle/held +mutex +host-7 +0\n`},
	} {
		p := beginWith(t, nil, env, want.args...)
		if p.Exits(0); !regexp.MustCompile(want.pattern).MatchString(p.String()) {
			t.Errorf("%q prints\n%s\nwant %s", want.args, p, want.pattern)
		}
	}
	watch := beginWith(t, nil, env, "watch", "--every", "20ms", "/idle/cached")
	watch.Await(t, ", may be idle", 1)
	watch.Send(os.Interrupt)
	watch.Exits(0)
}
