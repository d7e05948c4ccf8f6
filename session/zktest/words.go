package zktest

import (
	"encoding/binary"
	"fmt"
)

// answerWord answers a four-letter word, which takes the place of the length of a
// client's first frame. The known words are:
//
//	ruok    whether the server is there: imok
//	srvr    what it is and a few counters
//	mntr    more counters, one in a line, with a tab before the number
//
// Latencies are not measured, and the version distinguishes the double from a real
// server.
func (s *Server) answerWord(length int) ([]byte, bool) {
	word := string(binary.BigEndian.AppendUint32(nil, uint32(length)))
	imok := func() []byte { return []byte("imok") }
	answer := map[string]func() []byte{"ruok": imok, "srvr": s.srvr, "mntr": s.mntr}[word]
	if answer == nil {
		return nil, false
	}
	s.received.Add(1)
	s.mu.Lock()
	serves := !s.leaderless
	s.mu.Unlock()
	if !serves && word != "ruok" {
		return []byte("This ZooKeeper instance is not currently serving requests\n"), true
	}
	return answer(), true
}

// version is the version that the server reports: the series whose protocol it speaks.
const version = "3.8.0-zktest, built on nothing at all"

// nodeCount counts as a real server does, which has the root under two names.
func (s *Server) nodeCount() int { return len(s.tree.nodes) + 1 }

func (s *Server) srvr() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Appendf(nil, "Zookeeper version: %s\n"+
		"Latency min/avg/max: 0/0.0/0\n"+
		"Received: %d\n"+
		"Sent: %d\n"+
		"Connections: %d\n"+
		"Outstanding: 0\n"+
		"Zxid: %#x\n"+
		"Mode: standalone\n"+
		"Node count: %d\n",
		version, s.received.Load(), s.sent.Load(), len(s.conns), s.zxid, s.nodeCount())
}

func (s *Server) mntr() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	ephemerals := 0
	for _, owned := range s.tree.ephemerals {
		ephemerals += len(owned)
	}
	b := fmt.Appendf(nil, "zk_version\t%s\nzk_server_state\tstandalone\n", version)
	for _, counter := range []struct {
		name  string
		value int64
	}{
		{"zk_znode_count", int64(s.nodeCount())},
		{"zk_ephemerals_count", int64(ephemerals)},
		{"zk_watch_count", int64(s.watches())},
		{"zk_num_alive_connections", int64(len(s.conns))},
		{"zk_outstanding_requests", 0},
		{"zk_packets_received", s.received.Load()},
		{"zk_packets_sent", s.sent.Load()},
	} {
		b = fmt.Appendf(b, "%s\t%d\n", counter.name, counter.value)
	}
	return b
}
