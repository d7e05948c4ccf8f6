package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requests parses the program's output: how many increments each process made, and how many requests they took.
func requests(t *testing.T, printed, way string) (first, second, requests int) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + way + ` +\d+ increments \((\d+) and (\d+)\) took (\d+) requests`).FindStringSubmatch(printed)
	if found == nil {
		t.Fatalf("no line says how many requests it took %s:\n%s", way, printed)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		eventstest.Must(t, err)
		return n
	}
	return number(found[1]), number(found[2]), number(found[3])
}

// Cached takes at most a tenth of the requests, and both processes get their share.
func TestCachedTakesATenthOfTheRequests(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(time.Millisecond) })
		if err := run(t.Context(), p, p.ZK, 4000); err != nil {
			t.Fatal(err)
		}
		_, _, plain := requests(t, p.String(), "without Cached")
		first, second, cached := requests(t, p.String(), "with Cached")
		if cached > plain/10 {
			t.Errorf("%d requests with Cached and %d without, want a tenth at most", cached, plain)
		}
		if min(first, second) < 1000 {
			t.Errorf("with Cached the processes made %d and %d of 4000 increments, want 1000 each or more", first, second)
		}
		p.Empty(t, plainLock, cachedLock)
	})
}

// Connections break, sessions end and nodes are deleted, and the counter equals the number of increments.
func TestAccidents(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		server, random := p.Server, rand.New(rand.NewPCG(1, 1))
		server.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(20 * time.Millisecond) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, p, p.ZK, 1500) }()
		accidents := 0
		for {
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the program ended with %v, want success", err)
				}
				if accidents < 10 {
					t.Errorf("there were %d accidents, want 10 or more", accidents)
				}
				p.Must(t, "without Cached  1500 increments", "with Cached     1500 increments")
				time.Sleep(time.Minute) // virtual: a session whose goodbye was cut off expires
				return
			case <-time.After(time.Duration(random.IntN(500)) * time.Millisecond):
			}
			ids := server.Sessions()
			if len(ids) == 0 {
				continue
			}
			accidents++
			switch id := ids[random.IntN(len(ids))]; random.IntN(3) {
			case 0:
				_ = server.Expire(id)
			case 1:
				server.Cut(id)
			default:
				for _, lock := range []string{plainLock, cachedLock} {
					for _, node := range server.Children(lock) {
						_ = server.Delete(lock + "/" + node)
					}
				}
			}
		}
	})
}

// A Grant that is not later than the latest write's changes nothing.
func TestTheCounterRefusesOldGrants(t *testing.T) {
	c, err := openCounter(filepath.Join(t.TempDir(), "counter"))
	eventstest.Must(t, err)
	defer c.file.Close()
	for _, test := range []struct {
		token int64
		turn  uint64
		value int64 // afterwards
	}{{5, 0, 1}, {5, 1, 2}, {5, 1, 2}, {5, 0, 2}, {4, 7, 2}, {6, 0, 3}, {5, 2, 3}} {
		err := c.increment(events.Grant{Token: test.token, Turn: test.turn})
		now, readErr := c.read()
		eventstest.Must(t, readErr)
		if now.Value != test.value {
			t.Errorf("after token %d, turn %d (%v) the counter has %d, want %d", test.token, test.turn, err, now.Value, test.value)
		}
	}
}
