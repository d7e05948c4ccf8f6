package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
)

var (
	errGone = errors.New("no such host")
	errDown = errors.New("connection refused")
)

// zone is a name server and a network, with a test's names and addresses.
type zone struct {
	mu      sync.Mutex
	names   map[string]string // to addresses, separated by spaces; "" is a name without addresses
	slow    time.Duration     // of each lookup
	network map[string]string // by address: how it answers a dial; if missing, at once
	lookups int
	dialled []string
	open    int // connections
}

// lookup resolves the names of the zone.
func (z *zone) lookup(ctx context.Context, _, host string) (found []netip.Addr, err error) {
	z.mu.Lock()
	z.lookups++
	slow, addrs := z.slow, z.names[host]
	z.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for addr := range strings.FieldsSeq(addrs) {
		found = append(found, netip.MustParseAddr(addr))
	}
	if len(found) == 0 {
		err = errGone
	}
	return found, err
}

func (z *zone) set(change func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change()
}

// dialledNow returns the addresses that were dialed since the last call.
func (z *zone) dialledNow() (list []string) {
	z.set(func() { list, z.dialled = z.dialled, nil })
	return list
}

// zoneConn counts as open until it is closed.
type zoneConn struct {
	net.Conn
	z    *zone
	once sync.Once
}

func (c *zoneConn) Close() error {
	c.once.Do(func() { c.z.set(func() { c.z.open-- }) })
	return c.Conn.Close()
}

func (z *zone) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	z.mu.Lock()
	z.dialled = append(z.dialled, addr)
	state := z.network[addr]
	z.mu.Unlock()
	switch state {
	case "silent":
		<-ctx.Done()
		return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
	case "down":
		return nil, fmt.Errorf("dial %s: %w", addr, errDown)
	case "slow":
		<-ctx.Done() // it still connects: the answer was in transit
	case "late":
		time.Sleep(min(mostStagger, testTimeout/20) * 3 / 2)
	}
	near, far := net.Pipe()
	go fakeConn{far}.ignore()
	z.set(func() { z.open++ })
	return &zoneConn{Conn: near, z: z}, nil
}

// zoneClient is a dialer with the hosts of a connect string, as a client uses them.
type zoneClient struct {
	*testing.T
	*Dialer
	z *zone
}

// inZone runs the test in virtual time with a client of these servers. If alive is set,
// it has a session. names maps names to addresses.
func inZone(t *testing.T, names map[string]string, alive bool, servers string, test func(z *zone, c zoneClient)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: names, network: map[string]string{}}
		test(z, z.client(t, namesOf(t, z.lookup), alive, servers))
	})
}

// namesOf returns Names that end with the test.
func namesOf(t *testing.T, lookup LookupFunc) *Names {
	t.Helper()
	n := NewNames(lookup, func(run func()) bool { go run(); return true })
	t.Cleanup(n.Stop)
	return n
}

// client returns a client of these servers, which are separated by spaces.
func (z *zone) client(t *testing.T, names *Names, alive bool, servers string) zoneClient {
	t.Helper()
	d := dialerOf(t, Events{}, Dialing{Hosts: NewHosts(strings.Fields(servers), testRand()), Dial: z.dial, Names: names})
	if alive {
		d.link.establish(7, testTimeout)
	}
	return zoneClient{t, d, z}
}

// next tries the next server, without pausing between attempts.
func (c zoneClient) next() error {
	c.Helper()
	c.mu.Lock()
	c.failures = 0
	c.current = nil // a test that keeps the connection closes it
	c.mu.Unlock()
	name, _ := c.cfg.Hosts.Next()
	conn, err := c.Dial("tcp", name, 0)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// tries makes attempts, which must succeed, and returns the addresses that were dialed.
func (c zoneClient) tries(attempts int) []string {
	c.Helper()
	c.z.dialledNow()
	for range attempts {
		eventstest.Must(c.T, c.next())
	}
	return c.z.dialledNow()
}

// sorted returns a sorted copy of the list.
func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// are checks a list whose elements have no spaces.
func are(t *testing.T, got []string, want, what string) {
	t.Helper()
	equal(t, strings.Join(got, " "), want, "%s", what)
}

func TestEachAddressOfANameIsAServer(t *testing.T) {
	names := map[string]string{"zk": "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.1", "other": "10.0.0.9"}
	inZone(t, names, true, "zk:2181 other:2181 [::1]:2181", func(z *zone, c zoneClient) {
		equal(c.T, c.cfg.Hosts.Len(), 3, "the servers before any lookup: entries of the connect string")
		for range 3 {
			const all = "10.0.0.1:2181 10.0.0.2:2181 10.0.0.3:2181 10.0.0.9:2181 [::1]:2181"
			are(c.T, sorted(c.tries(5)), all, "each round tries")
		}
		equal(c.T, c.cfg.Hosts.Len(), 5, "servers")
		equal(c.T, z.lookups, 4*3, "lookups, one for each attempt by a name")
	})
}

func TestAChangedAnswerIsFollowedAtTheNextDial(t *testing.T) {
	inZone(t, map[string]string{"zk": "10.0.0.1 10.0.0.2"}, true, "zk:2181", func(z *zone, c zoneClient) {
		c.tries(2)
		z.set(func() { z.names["zk"] = "10.0.0.1 10.0.0.7" })
		are(c.T, c.tries(1), "10.0.0.7:2181", "the first attempt after the change goes to the new address")
		z.set(func() { z.names["zk"] = "10.0.0.8" })
		are(c.T, c.tries(2), "10.0.0.8:2181 10.0.0.8:2181", "after the second change, tried")
	})
}

func TestAVanishedNameHasTheAddressesItHad(t *testing.T) {
	inZone(t, map[string]string{"zk": "10.0.0.1 10.0.0.2"}, true, "zk:2181", func(z *zone, c zoneClient) {
		var told []string
		c.link.Events.OnUnresolved = func(server string, err error) { told = append(told, fmt.Sprint(server, ": ", err)) }
		c.tries(1)
		z.set(func() { z.names["zk"] = "" })
		are(c.T, sorted(c.tries(2)), "10.0.0.1:2181 10.0.0.2:2181", "without the name, tried")
		are(c.T, told, "zk:2181: no such host zk:2181: no such host", "told")
		z.set(func() { z.network["10.0.0.1:2181"], z.network["10.0.0.2:2181"] = "down", "down" })
		err := c.next()
		expect(c.T, errors.Is(err, errGone) && errors.Is(err, errDown) && errors.Is(c.LastError(), errGone),
			"without the name and the servers: %v, want both causes", err)
		z.set(func() { z.names["zk"] = "10.0.0.3" })
		c.tries(1)
	})
}

func TestASlowLookupDelaysNoKnownAddress(t *testing.T) {
	const soon = testTimeout / 10
	const old, young = "10.0.0.1:2181", "10.0.0.2:2181"
	for name, test := range map[string]struct {
		state string // of the known address
		slow  time.Duration
		want  string
		after time.Duration
		fails error
	}{
		"the known address answers":         {"", time.Hour, old, soon, nil},
		"it is down, and the lookup ends":   {"down", 2 * soon, old + " " + young, 2 * soon, nil},
		"it is silent, and the lookup ends": {"silent", 2 * soon, old, 3 * soon, context.DeadlineExceeded},
		"neither ends":                      {"silent", time.Hour, old, 3 * soon, context.DeadlineExceeded},
		"the lookup is soon enough":         {"", soon - 1, young, soon - 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inZone(t, map[string]string{"zk": "10.0.0.1"}, true, "zk:2181", func(z *zone, c zoneClient) {
				c.tries(1)
				z.set(func() {
					z.names["zk"], z.slow = "10.0.0.2", test.slow
					z.network["10.0.0.1:2181"] = test.state
				})
				start := time.Now()
				err := c.next()
				took(c.T, "the attempt", start, test.after)
				are(c.T, z.dialledNow(), test.want, "dialled")
				expect(c.T, errors.Is(err, test.fails), "dialled with %v, want %v", err, test.fails)
			})
		})
	}
}

// TestADeadAddressCostsAMoment: an attempt dials three addresses one after another. The
// one that connects is the last to be tried again, even if it is slow and others were
// dialed after it.
func TestADeadAddressCostsAMoment(t *testing.T) {
	moment := min(mostStagger, testTimeout/20)
	for name, test := range map[string]struct {
		first, second string // the state of the addresses that are dialed before the last one
		after         time.Duration
		dialled       int
		again         []int // the order of the next attempt
	}{
		"silent":                {"silent", "silent", 2 * moment, 3, []int{0, 1, 2}},
		"refused":               {"down", "down", 0, 3, []int{0, 1, 2}},
		"answered too late":     {"slow", "slow", 2 * moment, 3, []int{0, 1, 2}},
		"the late one connects": {"late", "silent", moment * 3 / 2, 2, []int{2, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			names := map[string]string{"zk": "10.0.0.1 10.0.0.2 10.0.0.3"}
			inZone(t, names, false, "zk:2181", func(z *zone, c zoneClient) {
				order := c.tries(3)
				z.set(func() { z.network[order[0]], z.network[order[1]] = test.first, test.second })
				start := time.Now()
				got := c.tries(1)
				took(c.T, "the attempt", start, test.after)
				are(c.T, got, strings.Join(order[:test.dialled], " "), "dialled")
				equal(c.T, z.open, 0, "connections that are open")
				var again []string
				for _, i := range test.again {
					again = append(again, order[i])
				}
				are(c.T, c.cfg.Hosts.addresses("zk:2181"), strings.Join(again, " "), "the next attempt tries")
			})
		})
	}
}

// An attempt has no deadline per address, and addresses that it did not reach do not
// count as tried.
func TestAnAttemptHasOneDeadlineForAllAddresses(t *testing.T) {
	const many = 30
	inZone(t, map[string]string{}, false, "zk:2181", func(z *zone, c zoneClient) {
		for i := range many {
			z.names["zk"] += fmt.Sprintf(" 10.0.0.%d", i)
			z.network[fmt.Sprintf("10.0.0.%d:2181", i)] = "silent"
		}
		seen := map[string]bool{}
		for range many {
			start := time.Now()
			eventstest.ErrorIs(c.T, c.next(), context.DeadlineExceeded, "an attempt without an answer")
			took(c.T, "an attempt without an answer", start, testTimeout*3/10)
			for _, addr := range z.dialledNow() {
				if seen[addr] && len(seen) < many {
					c.Fatalf("%s is tried again, and %d of %d were not tried yet", addr, many-len(seen), many)
				}
				seen[addr] = true
			}
			if len(seen) == many {
				return
			}
		}
		c.Errorf("%d addresses of %d were tried, want all", len(seen), many)
	})
}

// If the program provides the dial function, it gets the names.
func TestADialerOfThePrograms(t *testing.T) {
	z := &zone{}
	all := namesOf(t, z.lookup)
	for addr, names := range map[string]*Names{"zk:2181": nil, "10.0.0.1:2181": all, "[fe80::1%eth0]:2181": all} {
		conn, err := dialerOf(t, Events{}, Dialing{Dial: z.dial, Names: names}).Dial("tcp", addr, 0)
		eventstest.Must(t, err)
		eventstest.Check(t, conn.Close())
		are(t, z.dialledNow(), addr, "dialled")
		equal(t, z.lookups, 0, "lookups")
	}
}

// choosy is a mechanism that cannot begin an exchange with one of the servers.
type choosy struct {
	hinders string
	starts  map[string]int
}

func (c *choosy) Name() string { return "CHOOSY" }

func (c *choosy) Start(_ context.Context, server string) (sasl.Exchange, error) {
	c.starts[server]++
	if server == c.hinders {
		return nil, sasl.ErrTemporary
	}
	return &script{lines: []string{"x"}}, nil
}

// A server with which no exchange can begin is tried in turn with the others, and no more
// often.
func TestAServerWithoutAnExchangeTakesItsTurn(t *testing.T) {
	names := map[string]string{"zk0": "10.0.0.1", "zk1": "10.0.0.2", "zk2": "10.0.0.3"}
	inZone(t, names, false, "zk0:2181 zk1:2181 zk2:2181", func(_ *zone, c zoneClient) {
		m := &choosy{starts: map[string]int{}}
		c.cfg.SASL = m
		for range 6 {
			_ = c.next()
		}
		clear(m.starts)
		m.hinders = "zk0:2181"
		for range 12 {
			_ = c.next()
		}
		want := map[string]int{"zk0:2181": 4, "zk1:2181": 4, "zk2:2181": 4}
		eventstest.Equal(c.T, m.starts, want, "where 12 attempts went")
	})
}
