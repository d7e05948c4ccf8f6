//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// probed is a server that makes sessions, and answers no four-letter word.
type probed struct {
	takes time.Duration // each answer
	fails int32         // the error of the answer to every request, after which it hangs up; 0: none
	knows string        // what a client has to prove before; empty: nothing

	made, ended atomic.Int32 // sessions
}

func (s *probed) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	known := s.knows == ""
	for greeted := false; ; greeted = true {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil || head[0] != 0 { // it is no frame
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

// The patience is for each answer, not for all of them together.
func TestThePatienceIsForEachAnswer(t *testing.T) {
	const patience = 3 * time.Second
	slow, slower := patience-time.Second, patience+time.Second
	if seen := (&probed{takes: slow}).examine(t, patience, session.Config{}); !seen.Serves() || seen.RoundTrip != slow {
		t.Errorf("answers take %v: %q, with a round trip of %v; want that it serves, with one of %v", slow, seen.Refusal, seen.RoundTrip, slow)
	}
	if seen := (&probed{takes: slower}).examine(t, patience, session.Config{}); seen.Refusal != "it has not answered in time" {
		t.Errorf("answers take %v: %q, want none in time", slower, seen.Refusal)
	}
}

// prover is a mechanism that proves itself by a word when it is asked.
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

// A server that makes a session serves, also if it wants to know who the client is before anything
// else. A client that says so can end the sessions.
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
		if !seen.Serves() || seen.RoundTrip != time.Second {
			t.Errorf("%s: %q, with a round trip of %v; want that it serves, with one of 1s", name, seen.Refusal, seen.RoundTrip)
		}
		if made, ended := s.made.Load(), s.ended.Load(); ended > 0 != test.ends || test.ends && ended != made {
			t.Errorf("%s: %d of %d sessions were ended, want all: %t", name, ended, made, test.ends)
		}
	}
	if seen := (&probed{fails: -100}).examine(t, time.Minute, session.Config{}); seen.Serves() {
		t.Error("it answers a ping with an error, and is said to serve")
	}
}
