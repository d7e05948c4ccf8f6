package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
)

var (
	errGone = errors.New("no such host")
	errDown = errors.New("connection refused")
)

// zone is a name server and a network, with the names and addresses that a test puts in.
type zone struct {
	mu      sync.Mutex
	names   map[string]string // to addresses, separated by spaces; "" is a name without any
	slow    time.Duration     // of each lookup
	network map[string]string // by address: how it answers a dial; at once if it is not here
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

// dialledNow returns the addresses that were dialled since the last call.
func (z *zone) dialledNow() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	defer func() { z.dialled = nil }()
	return strings.Join(z.dialled, " ")
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
		<-ctx.Done() // it connects all the same: the answer was on its way
	case "late":
		time.Sleep(min(mostStagger, testTimeout/20) * 3 / 2)
	}
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	z.set(func() { z.open++ })
	return &zoneConn{Conn: near, z: z}, nil
}

// zoneClient is a dialer with the hosts of a connect string, as a client uses them.
type zoneClient struct {
	*Dialer
	hosts *Hosts
}

// namesOf returns names that end with the test.
func namesOf(t *testing.T, lookup LookupFunc) *Names {
	t.Helper()
	n := NewNames(lookup, nil)
	t.Cleanup(n.Stop)
	return n
}

// clientOf returns a client with these servers. It has a session if alive.
func (z *zone) clientOf(t *testing.T, alive bool, servers ...string) zoneClient {
	t.Helper()
	return z.clientWith(t, namesOf(t, z.lookup), alive, servers...)
}

// clientWith is clientOf for a client that shares its lookups.
func (z *zone) clientWith(t *testing.T, names *Names, alive bool, servers ...string) zoneClient {
	t.Helper()
	link := NewLink(Events{})
	if alive {
		link.establish(7, testTimeout)
	}
	hosts := NewHosts(servers, testRand())
	d := NewDialer(t.Context(), link, Dialing{Hosts: hosts, Dial: z.dial, Names: names, Asked: testTimeout, Rng: testRand()})
	return zoneClient{d, hosts}
}

// next tries the next server, without the pause between attempts.
func (c zoneClient) next(t *testing.T) error {
	t.Helper()
	c.mu.Lock()
	c.failures = 0
	c.current = nil // a test that keeps it closes it
	c.mu.Unlock()
	name, _ := c.hosts.Next()
	conn, err := c.Dial("tcp", name, 0)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func TestEachAddressOfANameIsAServer(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.1", "other": "10.0.0.9"}}
		c := z.clientOf(t, true, "zk:2181", "other:2181", "[::1]:2181")
		if n := c.hosts.Len(); n != 3 {
			t.Errorf("before any lookup there are %d servers, want 3: the entries of the connect string", n)
		}
		for round := range 3 {
			for range 5 {
				eventstest.Must(t, c.next(t))
			}
			want := []string{"10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181", "10.0.0.9:2181", "[::1]:2181"}
			got := strings.Fields(z.dialledNow())
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("round %d tries %v, want each of %v once", round, got, want)
			}
		}
		if n := c.hosts.Len(); n != 5 {
			t.Errorf("there are %d servers, want 5", n)
		}
		if z.lookups != 4*3 {
			t.Errorf("%d lookups, want 12: one for each attempt by a name, none for a literal", z.lookups)
		}
	})
}

// Many clients with one name spread over the servers.
func TestAddressesAreTriedInARandomOrder(t *testing.T) {
	starts, rng := map[string]int{}, testRand()
	for range 300 {
		h := NewHosts([]string{"zk:1"}, rng)
		h.learn("zk:1", []string{"a:1", "b:1", "c:1"}, rng)
		starts[h.addresses("zk:1")[0]]++
	}
	for _, addr := range []string{"a:1", "b:1", "c:1"} {
		if n := starts[addr]; n < 60 {
			t.Errorf("%s is first %d times of 300, want 60 or more", addr, n)
		}
	}
}

func TestAChangedAnswerIsFollowedAtTheNextDial(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2"}}
		c := z.clientOf(t, true, "zk:2181")
		eventstest.Must(t, c.next(t))
		eventstest.Must(t, c.next(t))
		z.dialledNow()
		z.set(func() { z.names["zk"] = "10.0.0.1 10.0.0.7" })
		eventstest.Must(t, c.next(t))
		if got := z.dialledNow(); got != "10.0.0.7:2181" {
			t.Errorf("the first attempt after the change goes to %s, want the address that is new", got)
		}
		z.set(func() { z.names["zk"] = "10.0.0.8" })
		eventstest.Must(t, c.next(t))
		eventstest.Must(t, c.next(t))
		if got := z.dialledNow(); got != "10.0.0.8:2181 10.0.0.8:2181" {
			t.Errorf("after the second change %s are tried, want the new address only", got)
		}
	})
}

func TestAVanishedNameHasTheAddressesItHad(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2"}, network: map[string]string{}}
		c := z.clientOf(t, true, "zk:2181")
		var told []string
		c.link.Events.OnUnresolved = func(server string, err error) { told = append(told, fmt.Sprint(server, ": ", err)) }
		eventstest.Must(t, c.next(t))
		z.dialledNow()
		z.set(func() { z.names["zk"] = "" })
		for range 2 {
			eventstest.Must(t, c.next(t))
		}
		got := strings.Fields(z.dialledNow())
		if slices.Sort(got); !slices.Equal(got, []string{"10.0.0.1:2181", "10.0.0.2:2181"}) {
			t.Errorf("without the name %v are tried, want both earlier addresses", got)
		}
		if want := []string{"zk:2181: no such host", "zk:2181: no such host"}; !slices.Equal(told, want) {
			t.Errorf("told: %q, want %q", told, want)
		}
		z.set(func() { z.network["10.0.0.1:2181"], z.network["10.0.0.2:2181"] = "down", "down" })
		err := c.next(t)
		if !errors.Is(err, errGone) || !errors.Is(err, errDown) || !errors.Is(c.LastError(), errGone) {
			t.Errorf("without the name and the servers: %v, want both causes", err)
		}
		z.set(func() { z.names["zk"] = "10.0.0.3" })
		eventstest.Must(t, c.next(t))
	})
}

// An earlier address may belong to another ensemble now, which would give out the same locks.
func TestANewSessionBeginsWhereTheNameLeadsNow(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1"}}
		c := z.clientOf(t, false, "zk:2181", "[::1]:2181")
		eventstest.Must(t, c.next(t))
		eventstest.Must(t, c.next(t))
		z.dialledNow()
		z.set(func() { z.names["zk"] = "" })
		failed := 0
		for range 4 {
			if err := c.next(t); errors.Is(err, errGone) {
				failed++
			}
		}
		if got := z.dialledNow(); got != "[::1]:2181 [::1]:2181" || failed != 2 {
			t.Errorf("without a session and the name %s are tried, and %d attempts fail; want the other server twice, and 2", got, failed)
		}
	})
}

func TestASlowLookupDelaysNoKnownAddress(t *testing.T) {
	const soon = testTimeout / 10
	for name, test := range map[string]struct {
		state string // of the known address
		slow  time.Duration
		want  string
		after time.Duration
		fails error
	}{
		"the known address answers":         {"", time.Hour, "10.0.0.1:2181", soon, nil},
		"it is down, and the lookup ends":   {"down", 2 * soon, "10.0.0.1:2181 10.0.0.2:2181", 2 * soon, nil},
		"it is silent, and the lookup ends": {"silent", 2 * soon, "10.0.0.1:2181", 3 * soon, context.DeadlineExceeded},
		"neither ends":                      {"silent", time.Hour, "10.0.0.1:2181", 3 * soon, context.DeadlineExceeded},
		"the lookup is soon enough":         {"", soon - 1, "10.0.0.2:2181", soon - 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				z := &zone{names: map[string]string{"zk": "10.0.0.1"}, network: map[string]string{}}
				c := z.clientOf(t, true, "zk:2181")
				eventstest.Must(t, c.next(t))
				z.dialledNow()
				z.set(func() {
					z.names["zk"], z.slow = "10.0.0.2", test.slow
					z.network["10.0.0.1:2181"] = test.state
				})
				start := time.Now()
				err := c.next(t)
				took(t, "the attempt", start, test.after)
				if got := z.dialledNow(); got != test.want || !errors.Is(err, test.fails) {
					t.Errorf("dialled: %s, with %v; want %s, with %v", got, err, test.want, test.fails)
				}
			})
		})
	}
}

func TestADeadAddressCostsAMoment(t *testing.T) {
	moment := min(mostStagger, testTimeout/20)
	for name, test := range map[string]struct {
		first string // the state of the two addresses that are dialled before the last one
		after time.Duration
	}{
		"silent":  {"silent", 2 * moment},
		"refused": {"down", 0},
		"late":    {"slow", 2 * moment},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2 10.0.0.3"}, network: map[string]string{}}
				c := z.clientOf(t, false, "zk:2181")
				for range 3 {
					eventstest.Must(t, c.next(t))
				}
				order := strings.Fields(z.dialledNow())
				z.set(func() { z.network[order[0]], z.network[order[1]] = test.first, test.first })
				start := time.Now()
				eventstest.Must(t, c.next(t))
				took(t, "an attempt with two dead addresses", start, test.after)
				if got := strings.Fields(z.dialledNow()); !slices.Equal(got, order) {
					t.Errorf("dialled: %v, want %v", got, order)
				}
				if z.open != 0 {
					t.Errorf("%d connections are open after the attempt, want none", z.open)
				}
			})
		})
	}
}

// A server that is slow to connect wins over others that were dialled after it.
func TestTheWinnerIsTheLastToBeTriedAgain(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2 10.0.0.3"}, network: map[string]string{}}
		c := z.clientOf(t, false, "zk:2181")
		for range 3 {
			eventstest.Must(t, c.next(t))
		}
		order := strings.Fields(z.dialledNow())
		z.set(func() { z.network[order[0]], z.network[order[1]] = "late", "silent" })
		eventstest.Must(t, c.next(t))
		if got := strings.Fields(z.dialledNow()); !slices.Equal(got, order[:2]) {
			t.Fatalf("dialled: %v, want %v", got, order[:2])
		}
		if got, want := c.hosts.addresses("zk:2181"), []string{order[2], order[1], order[0]}; !slices.Equal(got, want) {
			t.Errorf("the next attempt tries %v, want %v", got, want)
		}
	})
}

// Without a deadline for each address, the last of them is not noted as tried before it was.
func TestAnAttemptHasOneDeadlineForAllAddresses(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{}, network: map[string]string{}}
		const many = 30
		for i := range many {
			z.names["zk"] += fmt.Sprintf(" 10.0.0.%d", i)
			z.network[fmt.Sprintf("10.0.0.%d:2181", i)] = "silent"
		}
		c := z.clientOf(t, false, "zk:2181")
		seen := map[string]bool{}
		for range many {
			start := time.Now()
			if err := c.next(t); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("an attempt without an answer ends with %v, want the deadline", err)
			}
			took(t, "an attempt without an answer", start, testTimeout*3/10)
			for _, addr := range strings.Fields(z.dialledNow()) {
				if seen[addr] && len(seen) < many {
					t.Fatalf("%s is tried again, and %d of %d were not tried yet", addr, many-len(seen), many)
				}
				seen[addr] = true
			}
			if len(seen) == many {
				return
			}
		}
		t.Errorf("%d addresses of %d were tried, want all", len(seen), many)
	})
}

// A server on a machine that takes connections and answers none of them is the last one to be tried again, also if all have one name.
func TestAMuteServerOfANameIsLeft(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		mute := ""
		f := &fakeServer{}
		f.serve = func(n int, c fakeConn) {
			f.mu.Lock()
			if mute == "" {
				mute = f.addrs[n-1]
			}
			isMute := mute == f.addrs[n-1]
			f.mu.Unlock()
			if _, ok := c.handshake(); !ok || isMute {
				c.recv() // returns when the client has gone
				return
			}
			c.grant(testTimeout, 7)
			c.echo()
		}
		z := &zone{names: map[string]string{"zk": "10.0.0.1 10.0.0.2"}}
		r := &rig{link: NewLink(Events{}), states: make(chan zk.State, 100), hosts: NewHosts([]string{"zk:2181"}, testRand())}
		r.dialer = NewDialer(t.Context(), r.link, Dialing{Hosts: r.hosts, Dial: f.dial, Names: namesOf(t, z.lookup), Asked: testTimeout, Rng: testRand()})
		start := time.Now()
		r.connect(t, testTimeout, "zk:2181")
		r.await(t, zk.StateHasSession)
		if took := time.Since(start); took < testTimeout*3/10 || took > testTimeout*3/10+backoffMin {
			t.Errorf("a session after %v, want one mute server's %v and a pause of %v", took, testTimeout*3/10, backoffMin)
		}
		r.end(t)
		f.wg.Wait()
	})
}

// If a program dials itself, its dialer gets the names.
func TestADialerOfThePrograms(t *testing.T) {
	z := &zone{}
	all := namesOf(t, z.lookup)
	for addr, names := range map[string]*Names{"zk:2181": nil, "10.0.0.1:2181": all, "[fe80::1%eth0]:2181": all} {
		d := NewDialer(t.Context(), NewLink(Events{}), Dialing{Dial: z.dial, Names: names, Asked: testTimeout, Rng: testRand()})
		conn, err := d.Dial("tcp", addr, 0)
		eventstest.Must(t, err)
		eventstest.Check(t, conn.Close())
		if got := z.dialledNow(); got != addr || z.lookups > 0 {
			t.Errorf("dialled: %s, with %d lookups; want %s, with none", got, z.lookups, addr)
		}
	}
}

// choosy is a mechanism that cannot begin an exchange with one server.
type choosy struct {
	hinders string
	starts  []string
}

func (c *choosy) Name() string { return "CHOOSY" }

func (c *choosy) Start(_ context.Context, server string) (sasl.Exchange, error) {
	c.starts = append(c.starts, server)
	if server == c.hinders {
		return nil, sasl.ErrTemporary
	}
	return &script{lines: []string{"x"}}, nil
}

// A server with which no exchange can begin takes its turn among the others, and no more than that.
func TestAServerWithoutAnExchangeTakesItsTurn(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk0": "10.0.0.1", "zk1": "10.0.0.2", "zk2": "10.0.0.3"}}
		hosts := NewHosts([]string{"zk0:2181", "zk1:2181", "zk2:2181"}, testRand())
		m := &choosy{}
		c := zoneClient{NewDialer(t.Context(), NewLink(Events{}), Dialing{
			Hosts: hosts, Dial: z.dial, Names: namesOf(t, z.lookup), Asked: testTimeout, Rng: testRand(), SASL: m,
		}), hosts}
		for range 6 {
			_ = c.next(t)
		}
		m.starts, m.hinders = nil, "zk0:2181"
		for range 12 {
			_ = c.next(t)
		}
		turns := map[string]int{}
		for _, server := range m.starts {
			turns[server]++
		}
		if turns["zk0:2181"] != 4 || turns["zk1:2181"] != 4 || turns["zk2:2181"] != 4 {
			t.Errorf("12 attempts went to %v, want 4 to each", turns)
		}
	})
}
