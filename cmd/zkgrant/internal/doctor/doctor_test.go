package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const refusal = "conf is not executed because it is not in the whitelist.\n"

// healthy returns the observation of an ensemble of three, and of a lock with a holder
// and a waiter.
func healthy() Observation {
	o := Observation{Asked: 10 * time.Second, Granted: 10 * time.Second, Tick: 2 * time.Second}
	for i, mode := range []string{"follower", "leader", "follower"} {
		srvr := "Zookeeper version: 3.8.0-abc, built on 2024-12-29 17:54 UTC\nZxid: 0x100000005\nMode: " + mode + "\n"
		s := Server{
			Addr: fmt.Sprintf("zk%d:2181", i+1), Reached: true, RoundTrip: time.Millisecond, Least: 4 * time.Second, Most: 40 * time.Second,
			Answers: map[string]string{
				"srvr": srvr, "ruok": "imok", "isro": "rw", "mntr": "zk_version\t3.8.0\n",
				"conf": "tickTime=2000\nminSessionTimeout=4000\nserver.1=a\nserver.2=b\nserver.3=c\n",
			},
			Later: srvr, Between: time.Second, Clock: &Clock{Ahead: 5 * time.Millisecond, Within: time.Millisecond},
		}
		if mode == "leader" {
			s.Answers["mntr"] += "zk_synced_followers\t2\nzk_quorum_size\t3\n"
		}
		o.Servers = append(o.Servers, s)
	}
	o.Tree = &Tree{
		Root: "/locks", Looked: 3,
		Nodes:    []Node{{Path: "/locks/a", Ours: true, Next: 9, Contenders: []string{named(ours, "lock-"), named(ours, "lock-")}}},
		Records:  []Record{{Path: "/locks/a", Holder: "x"}},
		Sessions: map[int64]Owned{1: {Nodes: 1, Bytes: 80}, 2: {Nodes: 1, Bytes: 80}},
	}
	return o
}

// Prefixes of contenders' names.
const (
	ours    = "_c_4f1c0a52-7c39-80aa-9a3c-d2b1c5a7e9f0-"
	curator = "_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-"
	goZk    = "_c_4f1c0a527c394a0e9a3cd2b1c5a7e9f0-"
	asKazoo = "4f1c0a527c3980aa9a3cd2b1c5a7e9f0"
	python  = "4f1c0a527c394a0e9a3cd2b1c5a7e9f0"
)

func named(whose, form string) string { return whose + form + "0000000007" }

// Each fault is found, with its level and subject. TestHealthyIsOK checks that none is
// found without a fault.
func TestFaultsAreFound(t *testing.T) {
	each := func(f func(s *Server)) func(*Observation) {
		return func(o *Observation) {
			for i := range o.Servers {
				f(&o.Servers[i])
			}
		}
	}
	owns := func(bytes int) func(*Observation) {
		return func(o *Observation) { o.Tree.Sessions[1] = Owned{Nodes: 10_000, Bytes: bytes} }
	}
	others := func(names ...string) func(*Observation) {
		return func(o *Observation) { o.Tree.Nodes[0].Others = names }
	}
	for _, c := range []struct {
		fault   string
		level   Level
		check   string
		subject string
		cause   func(o *Observation)
	}{
		{"a server is down", Warn, "reachable", "zk1:2181", func(o *Observation) { o.Servers[0] = Server{Addr: "zk1:2181", Refusal: "refused"} }},
		{"a server takes no session", Warn, "serving", "zk1:2181", func(o *Observation) {
			o.Servers[0] = Server{Addr: "zk1:2181", Reached: true, Refusal: "EOF"}
		}},
		{"no server takes a session", Bad, "quorum", "ensemble", each(func(s *Server) { s.Refusal = "EOF" })},
		{"a session reads only", Bad, "read-only", "zk2:2181", func(o *Observation) { o.Servers[1].ReadOnly = true }},
		{"it takes no session, and srvr says why", Bad, "read-only", "zk1:2181", func(o *Observation) {
			o.Servers[0].Refusal = "EOF"
			says(&o.Servers[0], "Mode: follower", "READ-ONLY mode; serving only read-only clients\nMode: read-only")
		}},
		{"isro says so", Bad, "read-only", "zk2:2181", func(o *Observation) { o.Servers[1].Answers["isro"] = "ro" }},
		{"ruok says nothing good", Warn, "ruok", "zk2:2181", func(o *Observation) { o.Servers[1].Answers["ruok"] = "hm" }},
		{"an observer", Note, "observer", "zk1:2181", func(o *Observation) { says(&o.Servers[0], "follower", "observer") }},
		{"a slow server", Warn, "round-trip", "zk1:2181", func(o *Observation) { o.Servers[0].RoundTrip = time.Second }},
		{"two leaders", Bad, "leaders", "ensemble", func(o *Observation) { says(&o.Servers[0], "follower", "leader") }},
		{"an ensemble of its own", Bad, "leaders", "ensemble", func(o *Observation) { says(&o.Servers[0], "follower", "standalone") }},
		{"two of them", Bad, "leaders", "ensemble", func(o *Observation) {
			o.Servers = o.Servers[:2]
			says(&o.Servers[0], "follower", "standalone")
			says(&o.Servers[1], "leader", "standalone")
		}},
		{"no leader", Warn, "leaders", "ensemble", func(o *Observation) { says(&o.Servers[1], "leader", "follower") }},
		{"two versions", Warn, "versions", "ensemble", func(o *Observation) { says(&o.Servers[0], "3.8.0", "3.9.2") }},
		{"a server is not named", Note, "connect-string", "ensemble", func(o *Observation) { o.Servers = o.Servers[:2] }},
		{"a server is named twice", Note, "connect-string", "ensemble", func(o *Observation) {
			says(&o.Servers[1], "leader", "standalone")
			o.Servers[1].At, o.Servers[1].Answers["conf"] = "10.0.0.2:2181", "tickTime=2000\n"
			o.Servers = []Server{o.Servers[1], o.Servers[1]}
			o.Servers[1].Addr = "zk9:2181"
		}},
		{"a voter is not in sync", Warn, "synced", "ensemble", func(o *Observation) {
			o.Servers[1].Answers["mntr"] = "zk_synced_followers\t1\nzk_quorum_size\t3\n"
		}},
		{"a server lags", Warn, "lag", "zk1:2181", func(o *Observation) { o.Servers[0].Later = "Zxid: 0x100000004\n" }},
		{"a server lags by an epoch", Warn, "lag", "zk1:2181", func(o *Observation) { o.Servers[0].Later = "Zxid: 0xffff\n" }},
		{"words are refused", Note, "words", "zk2:2181", func(o *Observation) { o.Servers[1].Answers["conf"] = refusal }},
		{"the timeout is clamped", Warn, "timeout", "session timeout", func(o *Observation) { o.Granted = 4 * time.Second }},
		{"the bounds differ", Warn, "bounds", "session timeout", func(o *Observation) { o.Servers[0].Most = time.Hour }},
		{"the ticks differ", Warn, "ticks", "tickTime", func(o *Observation) { o.Servers[0].Answers["conf"] = "tickTime=1000\n" }},
		{"the tick is longer than told", Bad, "tick", "tickTime", func(o *Observation) { o.Tick = time.Second }},
		{"the bounds tell of such a tick", Bad, "tick", "tickTime", each(func(s *Server) {
			s.Answers["conf"], s.Least, s.Most = refusal, 6*time.Second, time.Minute
		})},
		{"the bounds tell of a short one", Note, "tick", "tickTime", func(o *Observation) { o.Servers[1].Answers["conf"] = refusal }},
		{"the tick is not seen", Note, "tick", "tickTime", each(func(s *Server) { s.Answers["conf"], s.Most = refusal, time.Minute })},
		{"a clock is ahead", Warn, "clock", "zk1:2181", func(o *Observation) { o.Servers[0].Clock.Ahead = 3 * time.Second }},
		{"a clock is behind", Warn, "clock", "zk1:2181", func(o *Observation) { o.Servers[0].Clock.Ahead = -3 * time.Second }},
		{"a contender is of the future", Warn, "clock", "/locks", func(o *Observation) { o.Tree.Ahead = 3 * time.Second }},
		{"a node may not be read", Warn, "unreadable", "/locks/a", func(o *Observation) { o.Tree.Nodes[0].Refusal = "not authenticated" }},
		{"there is nothing", Note, "locks", "/locks", func(o *Observation) { o.Tree = &Tree{Root: "/locks"} }},
		{"a contender of no session", Bad, "persistent", "/locks/a", func(o *Observation) { o.Tree.Nodes[0].Persistent = []string{"lock-0000000001"} }},
		{"a directory of another program's", Note, "directories", "/locks", func(o *Observation) { o.Tree.Nodes[0].Ours = false }},
		{"a child that is no contender", Note, "strangers", "/locks/a", others("!note")},
		{"a child with the name of a latch", Note, "strangers", "/locks/a", others("latch-background")},
		{"a latch beside an election", Bad, "latch", "/locks/a", others(ours + "latch-0000000003")},
		{"a queue and a semaphore", Bad, "kinds", "/locks/a", others("leases", "locks")},
		{"a queue and a size", Warn, "kinds", "/locks/a", others("size")},
		{"a mutex and a read/write lock", Warn, "kinds", "/locks/a", func(o *Observation) { joins(&o.Tree.Nodes[0], named(ours, "__READ__")) }},
		{"most numbers are used", Note, "sequence", "/locks/a", func(o *Observation) { o.Tree.Nodes[0].Next = 1_700_000_000 }},
		{"a directory is to be renewed", Warn, "sequence", "/locks/a", func(o *Observation) { o.Tree.Nodes[0].Next = 1<<31 - 1<<21 }},
		{"its numbers are used up", Bad, "sequence", "/locks/a", func(o *Observation) { o.Tree.Nodes[0].Next = 1<<31 - 1<<20 }},
		{"they have begun again", Bad, "sequence", "/locks/a", func(o *Observation) { joins(&o.Tree.Nodes[0], ours+"lock--000000007") }},
		{"a holder has crashed", Warn, "record", "/locks/a", func(o *Observation) { o.Tree.Records[0].Gone = true }},
		{"the end of a session is half of what servers read", Warn, "session-nodes", "/locks", owns(1_048_575)},
		{"it is all of that", Warn, "session-nodes", "/locks", owns(2_097_102)},
		{"it is more than that", Bad, "session-nodes", "/locks", owns(2_097_103)},
		{"kazoo beside Curator", Bad, "forms", "/locks/a", func(o *Observation) {
			o.Tree.Nodes[0].Contenders = []string{named(python, "__lock__"), named(curator, "lock-")}
		}},
		{"kazoo's readers", Note, "forms", "/locks/a", func(o *Observation) {
			o.Tree.Nodes[0] = Node{Path: "/locks/a", Contenders: []string{named(python, "__lock__"), named(python, "__rlock__")}}
		}},
	} {
		is := func(f Finding) bool { return f.Level == c.level && f.Check == c.check && f.Subject == c.subject }
		o := healthy()
		c.cause(&o)
		found := Findings(o)
		at := slices.IndexFunc(found, is)
		if at < 0 {
			t.Errorf("%s: want %s of %s at %s, got %+v", c.fault, c.level, c.check, c.subject, found)
			continue
		}
		eventstest.Expect(t, found[at].Do != "", "%s: nothing to do about it: %+v", c.fault, found[at])
		eventstest.Equal(t, Worst(found) == Bad, c.level == Bad, "%s: the worst is bad: %+v", c.fault, found)
	}
}

// Servers older than 3.6 survive the end of any session. An unknown version may be newer.
func TestTheEndOfASessionBeforeOldServers(t *testing.T) {
	for versions, want := range map[[3]string]Level{
		{"3.5.10", "3.4.13", "3.5.7"}: OK, {"3.5.10", "", "3.5.10"}: Bad, {"3.10.1", "3.10.1", "3.10.1"}: Bad,
	} {
		o := healthy()
		o.Tree.Sessions[1] = Owned{Nodes: 10_000, Bytes: 3_000_000}
		for i, version := range versions {
			says(&o.Servers[i], "version: 3.8.0", "version: "+version)
		}
		eventstest.Equal(t, Worst(sessions(o)), want, "the worst of %+v for %q", sessions(o), versions)
	}
}

// says changes a server's answer to srvr.
func says(s *Server, from, to string) {
	s.Answers["srvr"] = strings.Replace(s.Answers["srvr"], from, to, 1)
}

func joins(n *Node, name string) { n.Contenders = append(n.Contenders, name) }

func TestHealthyIsOK(t *testing.T) {
	found := Findings(healthy())
	eventstest.Expect(t, len(found) >= 7 && Worst(found) == OK,
		"got %+v, want a line for each check, and all of them ok", found)
	for _, f := range found {
		eventstest.Expect(t, f.Seen != "" && f.Check != "" && f.Subject != "", "%+v says too little", f)
	}
}

// The pairs of the interop table, as in bench/interop/MATRIX.md.
func TestForms(t *testing.T) {
	const none = Level("")
	for _, c := range []struct {
		a, b string
		want Level
		says string
	}{
		{named(ours, "lock-"), named(curator, "lock-"), none, ""},
		{named(ours, "lock-"), named(goZk, "lock-"), none, ""},
		{named(curator, "lock-"), named(goZk, "lock-"), none, ""},
		{named(ours, "__READ__"), named(curator, "__WRIT__"), none, ""},
		{named(asKazoo, "__lock__"), named(python, "__lock__"), none, ""},
		{named(asKazoo, "__rlock__"), named(python, "__lock__"), none, ""},
		{named(ours, "lock-"), "x-72057594037927936-0000000016", none, ""},
		{named(ours, "__WRIT__"), named(goZk, "lock-"), none, ""},
		{named(ours, "lock-"), named(python, "__lock__"), Bad, "kazoo's lock does not see"},
		{named(ours, "__READ__"), named(python, "__rlock__"), Bad, "kazoo's lock does not see"},
		{named(curator, "lock-"), named(python, "__lock__"), Bad, "neither sees"},
		{named(curator, "lock-"), named(curator, "__READ__"), Bad, "neither sees"},
		{named(ours, "lock-"), named(curator, "__READ__"), Bad, "Curator's read/write lock does not see"},
		{named(curator, "lock-"), "x-1-0000000016", Bad, "Curator's mutex does not see"},
		{named(ours, "__READ__"), "x-1-0000000016", Bad, "WriteLock does not see"},
		{named(python, "__lock__"), "x-1-0000000016", Bad, "neither sees"},
		{named(goZk, "lock-"), named(curator, "__READ__"), Bad, "Curator's read/write lock does not see"},
		{named(asKazoo, "__lock__"), named(ours, "lock-"), Warn, "one fails"},
		{named(goZk, "lock-"), "x-1-0000000016", Warn, "one fails"},
		{named(curator, "lock-"), "g-read-0000000001", Warn, "only zkgrant"},
	} {
		var got Finding
		for _, f := range forms(Node{Path: "/a", Contenders: []string{c.a, c.b}}) {
			got = f
		}
		eventstest.Expect(t, got.Level == c.want && strings.Contains(got.Seen, c.says),
			"%s beside %s: %q: %s; want %q with %q", c.a, c.b, got.Level, got.Seen, c.want, c.says)
	}
}

func TestNextSequence(t *testing.T) {
	for _, c := range []struct{ created, deleted int64 }{{0, 0}, {1, 0}, {1, 1}, {7, 3}, {1 << 30, 1<<30 - 1}, {1<<31 - 1, 1<<31 - 5}} {
		got := NextSequence(int32(c.created+c.deleted), int32(c.created-c.deleted))
		eventstest.Equal(t, got, c.created, "the next number after %d deletions", c.deleted)
	}
}

func TestEstablished(t *testing.T) {
	const cons = " /127.0.0.1:1[0](queued=0,recved=1,sent=0)\n" +
		" /127.0.0.1:2[1](queued=0,recved=1,sent=1,sid=0x1f,lop=SESS,est=1,to=4000,lcxid=0x0)\n" +
		" /127.0.0.1:3[1](queued=0,recved=1,sent=1,sid=0x1,lop=SESS,est=1700000000123,to=4000,lcxid=0x0)\n"
	if got, ok := Established(cons, 1); !ok || !got.Equal(time.UnixMilli(1700000000123)) {
		t.Errorf("got %v, %t; want the time of the session 0x1", got, ok)
	}
	got, ok := Established(cons, 2)
	eventstest.Expect(t, !ok, "a session that is not there was established %v", got)
}
