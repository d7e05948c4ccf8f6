//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

type found []doctor.Finding

// examined runs doctor, checks its exit code, and returns its findings.
func (g *rig) examined(code int, args string) (all found) {
	g.t.Helper()
	p := g.ends(code, "doctor --patience 1m --json "+args)
	for line := range strings.Lines(p.String()) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			g.t.Fatalf("doctor %s printed %s: %v", args, line, err)
		}
		if f.Level != "" { // a line without a level is the error
			all = append(all, f)
		}
	}
	return all
}

// has checks that there is such a finding, and that it contains the text.
func (all found) has(t *testing.T, level doctor.Level, check, subject, text string) {
	t.Helper()
	if !slices.ContainsFunc(all, func(f doctor.Finding) bool {
		return f.Level == level && f.Check == check && f.Subject == subject && strings.Contains(f.Seen, text)
	}) {
		t.Errorf("doctor found %+v\nwant %s, %s of %s: %s", all, level, check, subject, text)
	}
}

func create(t *testing.T, conn *zk.Conn, flags int32, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("creating %s: %v", path, err)
		}
	}
}

// doctor examines a healthy real ensemble, and then the same one with one fault after
// another.
func TestRealDoctor(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	g, conn := on(t, e.Connect()), client(t, e.Connect())
	leader, err := e.Leader(t.Context())
	eventstest.Must(t, err)
	followers, err := e.Followers(t.Context())
	eventstest.Must(t, err)

	holder := g.works("run --detect-crash --session-timeout 4s /healthy/lock -- part wait")
	semaphore := g.works("run --size 2 /healthy/semaphore -- part wait")
	queued := g.until("waiting for /healthy/semaphore", "run -v --size 2 -n 2 /healthy/semaphore -- true")
	healthy := g.examined(0, "/healthy")
	slow := func(f doctor.Finding) bool { return f.Check == "round-trip" || f.Check == "lag" } // the machine may be busy
	worst := doctor.Worst(slices.DeleteFunc(slices.Clone(healthy), slow))
	eventstest.Expect(t, worst == doctor.OK, "of a healthy ensemble doctor found %+v", healthy)
	for _, want := range [][3]string{
		{"serving", e.Addr(leader), "leader, version 3."},
		{"quorum", "ensemble", "3 of 3"},
		{"tick", "tickTime", "The servers have a tickTime of 500ms"},
		{"timeout", "session timeout", "the servers allow 1s to 10s"},
		{"clock", "clocks", "3 of 3 could be read"},
		{"locks", "/healthy", ": 2 contenders in 2 directories"},
	} {
		healthy.has(t, doctor.OK, want[0], want[1], want[2])
	}

	create(t, conn, zk.FlagPersistent, "/closed", "/closed/open", "/closed/open/lock-0000000000",
		"/sick", "/sick/mixed", "/sick/plain", "/sick/persistent", "/sick/persistent/lock-0000000000")
	_, err = conn.Create("/closed/lock-0000000000", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAdmin|zk.PermDelete))
	eventstest.Must(t, err)
	closed := g.examined(codeBad, "/closed")
	closed.has(t, doctor.Warn, "unreadable", "/closed", "not authorized")
	closed.has(t, doctor.Bad, "persistent", "/closed/open", "lock-0000000000")
	g.examined(0, "/none").has(t, doctor.Note, "locks", "/none", "does not exist")

	create(t, conn, zk.FlagEphemeral, "/sick/mixed/4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000000",
		"/sick/mixed/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000001")
	guest := g.works("run /sick/plain -- part wait")
	sick := g.examined(codeBad, "/sick")
	sick.has(t, doctor.Bad, "forms", "/sick/mixed", "Curator's mutex (1) beside kazoo's lock (1): no exclusion")
	sick.has(t, doctor.Bad, "persistent", "/sick/persistent", "lock-0000000000")
	sick.has(t, doctor.Note, "directories", "/sick", "/sick/plain")
	g.stop(guest, syscall.SIGTERM, 0)

	create(t, conn, zk.FlagPersistent, "/sick/mixed/leases")
	g.examined(codeBad, "/sick/mixed").has(t, doctor.Bad, "kinds", "/sick/mixed", "as a semaphore and")
	g.examined(codeBad, "--tick-time 400ms").has(t, doctor.Bad, "tick", "tickTime", "locks assume 400ms")
	g.examined(0, "--session-timeout 30s").has(t, doctor.Warn, "timeout", "session timeout",
		"30s was requested, but 10s was granted")

	holder.Send(syscall.SIGKILL)
	eventstest.Eventually(t, "the session of the killed holder is over", func() bool {
		names, _, err := conn.Children("/healthy/lock")
		return err == nil && len(names) == 0 || errors.Is(err, zk.ErrNoNode)
	})
	for _, path := range []string{"/healthy", "/healthy/lock"} {
		g.examined(0, path).has(t, doctor.Warn, "record", "/healthy/lock", "has crashed")
	}
	g.stop(semaphore, syscall.SIGTERM, 0)
	queued.Exits(0)

	eventstest.Check(t, e.Kill(followers[0]))
	g.examined(0, "").has(t, doctor.Warn, "reachable", e.Addr(followers[0]), "refused")
	eventstest.Eventually(t, "the leader misses a voter", func() bool {
		all := g.examined(0, "")
		return doctor.Worst(all) == doctor.Warn && strings.Contains(fmt.Sprint(all), "has 2 of 3 voters in sync")
	})
	eventstest.Check(t, e.Kill(leader))
	eventstest.Eventually(t, "the last server serves no more", func() bool {
		said, err := g.command("zkgrant doctor --json").Output()
		var end *exec.ExitError
		return errors.As(err, &end) && end.ExitCode() == codeFailed && strings.Contains(string(said), "No server accepts a session.")
	})
}

// A server allows only the default four-letter words, has a long tick, and requires TLS.
func TestRealDoctorOfDefaults(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(3*time.Second), ensemble.Line("4lw.commands.whitelist", "srvr,mntr"))
	c := newCertificate(t)
	addr := c.front(t, e.Addr(0))
	g := on(t, addr)
	all := g.examined(codeBad, c.flags())
	all.has(t, doctor.OK, "serving", addr, "standalone, version 3.")
	all.has(t, doctor.Bad, "tick", "tickTime",
		"their bounds for the session timeout, the servers have a tickTime of 3s, and locks assume 2s")
	all.has(t, doctor.Note, "words", addr, "conf,ruok,isro,cons are refused")
	g.examined(0, c.flags()+"--tick-time 3s").has(t, doctor.Note, "tick", "tickTime", "locks assume 3s")
	g.ends(codeFailed, "doctor", "accepts connections, but no sessions")
}

// A bad finding is red on a terminal unless NO_COLOR is set, and names from the servers
// are safe to print.
func TestDoctorOnATerminal(t *testing.T) {
	g := double(t)
	eventstest.Must(t, g.Create("/locks/\u202eodd/lock-0000000000", nil))
	for _, colours := range []bool{true, false} {
		term := g.terminal("zkgrant doctor /locks")
		term.exits(codeBad)
		eventstest.Eventually(t, "the path is printed without what turns a line round", func() bool {
			return strings.Contains(term.printed.String(), "  /locks/\ufffdodd  ")
		})
		prints(t, term.printed.String(), red+"bad "+plain, colours)
		g.env = append(g.env, "NO_COLOR=1")
	}
}

// The tickTime that locks assume depends on the session timeout that the servers grant,
// not on the requested one.
func TestDoctorOfAShortSessionTimeout(t *testing.T) {
	g := double(t)
	all := g.examined(0, "--session-timeout 2s")
	all.has(t, doctor.Warn, "timeout", "session timeout", "2s was requested, but 4s was granted")
	all.has(t, doctor.Note, "tick", "tickTime", "a tickTime of 2s, and locks assume 2s")
}

// doctor warns before a directory's sequence numbers are used up, even if the directory
// has only a holder's node.
func TestDoctorCountsSequenceNumbers(t *testing.T) {
	g := double(t)
	eventstest.Must(t, g.Create(lockPath, nil))
	eventstest.Must(t, g.SetSequence(lockPath, 1_900_000_000))
	g.works("run " + lockPath + " -- part wait")
	g.examined(0, "/locks").has(t, doctor.Note, "sequence", lockPath, "1900000001 of 2147483647")
}

// doctor adds up the nodes of each session below the path, as the servers list them in
// the transaction that ends the session.
func TestDoctorAddsUpTheNodesOfASession(t *testing.T) {
	g := double(t)
	dir := "/app/locks/" + strings.Repeat("x", 1000)
	for _, path := range []string{"/app/locks", "/app/locks/none", dir} {
		eventstest.Must(t, g.Create(path, nil))
	}
	conn, made := client(t, g.servers), 0
	fill := func(n int) {
		t.Helper()
		for range n {
			create(t, conn, zk.FlagEphemeral, fmt.Sprintf("%s/lock-%010d", dir, made))
			made++
		}
	}
	const node = 4 + 1011 + 16 // the size of one node
	app := on(t, g.servers+"/app")
	fill(1)
	create(t, conn, zk.FlagEphemeral, "/app/locks/unfair")
	app.examined(0, "/locks").has(t, doctor.OK, "session-nodes", "/locks",
		fmt.Sprintf("a transaction of %d bytes", 48+node+4+17))
	for _, f := range app.examined(0, "/locks/none") {
		eventstest.Expect(t, f.Check != "session-nodes",
			"below a path without such nodes: %+v, want nothing of it", f)
	}
	half := 1_048_575/node + 1
	fill(half - made)
	app.examined(0, "/locks").has(t, doctor.Warn, "session-nodes", "/locks",
		fmt.Sprintf("0x%x has %d nodes, which take %d bytes", conn.SessionID(), half+1, 48+half*node+4+17))
}

// A server that does not answer four-letter words still serves sessions.
func TestDoctorOfAServerThatAnswersNoWords(t *testing.T) {
	g := double(parallel(t))
	addr := eventstest.Serve(t, func(near net.Conn) {
		var first [4]byte
		if _, err := io.ReadFull(near, first[:]); err == nil && first[0] == 0 { // a frame, not a word
			relay(near, io.MultiReader(bytes.NewReader(first[:]), near), g.servers)
		}
		_, _ = io.Copy(io.Discard, near) // until the other side closes
	})
	g.ends(0, "doctor --json --patience 2s --servers "+addr,
		`"check":"serving","subject":"`+addr+`","seen":"Serving, with a round trip`)
}

// A real server that disconnects clients without an identity counts as healthy.
func TestRealDoctorOfAServerThatRequiresSASL(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	users := write(t, "jaas.conf", "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"secret\";\n};\n")
	e := ensemble.Start(t, 1, ensemble.Property("zookeeper.sessionRequireClientSASLAuth", "true"),
		ensemble.Property("java.security.auth.login.config", users),
		ensemble.Line("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"))
	g := on(t, e.Connect())
	g.examined(0, "--sasl-file "+write(t, "user", "bob:secret")).has(t, doctor.OK, "serving", e.Addr(0), "with a round trip of")
	g.examined(0, "").has(t, doctor.OK, "serving", e.Addr(0), "with a round trip of")
}

// probed is a server that creates sessions, but answers no four-letter word.
type probed struct {
	takes time.Duration // before each answer
	fails int32         // if not 0, the error that answers every request before it hangs up
	knows string        // what a client must prove first; empty: nothing

	made, ended atomic.Int32 // sessions
}

func (s *probed) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	known := s.knows == ""
	for greeted := false; ; greeted = true {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil || head[0] != 0 { // not a frame
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		time.Sleep(s.takes)
		if !greeted {
			s.made.Add(1)
			reply := make([]byte, 37) // the version, the timeout, the session, the password with its length
			binary.BigEndian.PutUint64(reply[8:], 7)
			if _, err := conn.Write(appendField(nil, reply)); err != nil {
				return
			}
			continue
		}
		failure, challenge := s.fails, []byte(nil)
		switch code := int32(binary.BigEndian.Uint32(body[4:])); {
		case code == authCode || code == saslCode:
			known, challenge = known || bytes.Contains(body, []byte(s.knows)), appendField(nil, []byte("prove it"))
		case !known:
			failure = -124
		case code == closeCode:
			s.ended.Add(1)
		}
		reply := make([]byte, 12, 16) // the number, the transaction, and then the error
		reply = append(binary.BigEndian.AppendUint32(reply, uint32(failure)), challenge...)
		if _, err := conn.Write(appendField(nil, reply)); err != nil || failure != 0 {
			return
		}
	}
}

func (s *probed) examine(t *testing.T, patience time.Duration, who session.Config) (seen doctor.Server) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var serving sync.WaitGroup
		p := newProbe(who, patience)
		p.dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			serving.Go(func() { s.serve(far) })
			return near, nil
		}
		seen = p.examine(t.Context(), "zk1:2181")
		serving.Wait()
	})
	return seen
}

// The patience applies to each answer, not to all of them together.
func TestThePatienceIsForEachAnswer(t *testing.T) {
	const patience = 3 * time.Second
	slow, slower := patience-time.Second, patience+time.Second
	if seen := (&probed{takes: slow}).examine(t, patience, session.Config{}); !seen.Serves() || seen.RoundTrip != slow {
		t.Errorf("answers take %v: %q, with a round trip of %v; want that it serves, with one of %v", slow, seen.Refusal, seen.RoundTrip, slow)
	}
	seen := (&probed{takes: slower}).examine(t, patience, session.Config{})
	eventstest.Equal(t, seen.Refusal, "no answer in time", "answers take %v", slower)
}

// prover is a SASL mechanism that sends a word as its proof.
type prover string

func (prover) Name() string { return "PROVER" }

func (p prover) Start(context.Context, string) (sasl.Exchange, error) {
	return &proof{word: string(p)}, nil
}

type proof struct {
	word  string
	turns int
}

func (p *proof) Next(token []byte) (answer []byte, done bool, err error) {
	p.turns++
	switch {
	case p.turns > 2:
		return nil, true, nil
	case string(token) == "prove it":
		return []byte(p.word), false, nil
	}
	return []byte("hello"), false, nil
}

// A server that creates a session counts as serving, even if it requires authentication
// before anything else. A client that authenticates can also close its sessions.
func TestAServerThatRequiresAuthentication(t *testing.T) {
	const word = "open sesame"
	for name, test := range map[string]struct {
		who  session.Config
		ends bool
	}{
		"nobody":      {session.Config{}, false},
		"an identity": {session.Config{Auth: []session.Auth{{Scheme: "digest", Auth: []byte(word)}}}, true},
		"a mechanism": {session.Config{SASL: prover(word)}, true},
		"another one": {session.Config{SASL: prover("please")}, false},
	} {
		s := &probed{takes: time.Second, knows: word}
		seen := s.examine(t, time.Minute, test.who)
		eventstest.Expect(t, seen.Serves(), "%s: %q, want that it serves", name, seen.Refusal)
		eventstest.Equal(t, seen.RoundTrip, time.Second, "%s: the round trip", name)
		if made, ended := s.made.Load(), s.ended.Load(); ended > 0 != test.ends || test.ends && ended != made {
			t.Errorf("%s: %d of %d sessions were ended, want all: %t", name, ended, made, test.ends)
		}
	}
	seen := (&probed{fails: -100}).examine(t, time.Minute, session.Config{})
	eventstest.Expect(t, !seen.Serves(), "it answers a ping with an error, and is said to serve")
}
