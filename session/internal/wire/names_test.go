package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestWhichAddressesAnAttemptDials covers everything that an attempt can know about a
// name.
func TestWhichAddressesAnAttemptDials(t *testing.T) {
	const began = 3 // how many lookups had ended by then
	before, now := []string{"10.0.0.1:1"}, []string{"10.0.0.2:1"}
	for ended := range uint64(6) {
		for _, failed := range []error{nil, errGone} {
			for _, resumes := range []bool{false, true} {
				hosts, names := NewHosts([]string{"zk:1"}, testRand()), namesOf(t, nil)
				d := dialerOf(t, Events{}, Dialing{Hosts: hosts, Names: names})
				d.began = began
				hosts.learn("zk:1", before, testRand())
				if ended > 0 {
					names.latest["zk"] = &lookup{number: ended, found: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, err: failed}
				}
				present := ended == 4 || ended == 5 // the lookup has ended after the previous session
				var want []string
				if resumes {
					d.link.establish(7, testTimeout)
					want = before
				}
				if present && failed == nil {
					want = now
				}
				if got, err := d.addresses("zk:1", "zk", "1"); !slices.Equal(got, want) || ended > 0 && !errors.Is(err, failed) {
					t.Errorf("%d lookups ended, the latest with %v, resumed: %v: %v, %v; want %v", ended, failed, resumes, got, err, want)
				}
			}
		}
	}
}

// TestANewClientTrustsNoEarlierLookup: the previous session had those addresses, and they
// may belong to another ensemble now.
func TestANewClientTrustsNoEarlierLookup(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1"}}
		names := namesOf(t, z.lookup)
		z.client(t, names, true, "zk:2181").tries(1)
		z.set(func() { z.names["zk"], z.slow = "10.0.0.2", time.Minute })
		c := z.client(t, names, false, "zk:2181")
		for range 3 {
			eventstest.ErrorIs(t, c.next(), errSlow, "before the lookup has ended it dials %q", z.dialledNow())
		}
		z.set(func() { z.slow = 0 })
		time.Sleep(lookupMax) // the lookup in progress is given up
		are(t, c.tries(1), "10.0.0.2:2181", "after a lookup of its own the client dials")
		// A lookup counts if it began before the session ended and ended after it.
		z.set(func() { z.names["zk"], z.slow = "10.0.0.3", testTimeout })
		names.find("zk")
		c = z.client(t, names, false, "zk:2181")
		for c.next() != nil {
		}
		are(t, z.dialledNow(), "10.0.0.3:2181", "the new client dials")
	})
}

// TestALookupOutlastsTheAttempt: the attempts of one client share it, and so does the
// next client.
func TestALookupOutlastsTheAttempt(t *testing.T) {
	inZone(t, map[string]string{"zk": "10.0.0.1"}, false, "zk:2181 zk:2182", func(z *zone, c zoneClient) {
		const takes = 3 * testTimeout
		z.slow = takes
		start := time.Now()
		for err := errSlow; err != nil; {
			// An attempt that gets the addresses late may have no time left to dial them.
			if err = c.next(); err != nil && !errors.Is(err, errSlow) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			z.set(func() {
				if time.Since(start) < takes && z.lookups != 1 {
					t.Errorf("%d lookups after %v, want one for all attempts and both ports", z.lookups, time.Since(start))
				}
			})
		}
		// The lookup may end in a pause between two attempts, whose length is random.
		if took := time.Since(start); took < takes || took > takes+testTimeout {
			t.Errorf("the session takes %v, want the lookup's %v and a pause at most", took, takes)
		}
	})
}

// TestALookupIsBounded: Stop ends it, too.
func TestALookupIsBounded(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		z := &zone{names: map[string]string{"zk": "10.0.0.1"}, slow: time.Hour}
		names := namesOf(t, z.lookup)
		start := time.Now()
		<-names.find("zk").done
		took(t, "a lookup", start, lookupMax)
		eventstest.ErrorIs(t, names.last("zk").err, context.DeadlineExceeded, "a lookup that is given up")
		f := names.find("zk")
		names.Stop()
		<-f.done
		took(t, "a lookup that is stopped", start, lookupMax)
		<-names.find("zk").done
		eventstest.ErrorIs(t, names.last("zk").err, errNamesStopped, "a lookup after Stop")
		equal(t, z.lookups, 2, "the lookups that were made")
	})
}

// TestALookupWithoutANameServerSaysSo: Go's resolver then asks this machine, and its
// error mentions only that.
func TestALookupWithoutANameServerSaysSo(t *testing.T) {
	here := func(server string) error {
		return fmt.Errorf("lookup: %w", &net.DNSError{Err: "connection refused", Name: "zk", Server: server})
	}
	for _, c := range []struct {
		err    error
		conf   string
		unread error
		says   string
	}{
		{here("[::1]:53"), "", os.ErrNotExist, "no name server is configured: file does not exist"},
		{here("127.0.0.1:53"), "", nil, "no name server is configured: /etc/resolv.conf has none"},
		{here("127.0.0.1:53"), "# nameserver 10.0.0.1\nsearch example\n", nil, "/etc/resolv.conf has none"},
		{here("127.0.0.1:53"), "search example\n nameserver 127.0.0.1\n", nil, ""},
		{here("10.0.0.1:53"), "", os.ErrNotExist, ""},
		{errNoAddress, "", os.ErrNotExist, ""},
	} {
		got := nobodyToAsk(c.err, []byte(c.conf), c.unread)
		if !errors.Is(got, c.err) || c.unread != nil && c.says != "" && !errors.Is(got, c.unread) {
			t.Errorf("%v with %q becomes %v, want both errors in it", c.err, c.conf, got)
		}
		expect(t, (c.says != "" || got.Error() == c.err.Error()) && strings.Contains(got.Error(), c.says),
			"%v with %q, %v becomes %q, want %q added", c.err, c.conf, c.unread, got, c.says)
	}
}
