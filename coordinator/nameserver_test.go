package coordinator_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
)

// nameServer answers questions for addresses (RFC 1035) on a loopback port of its own, until the test has ended.
type nameServer struct {
	socket net.PacketConn

	mu      sync.Mutex
	names   map[string][]netip.Addr
	trouble byte // what it answers instead: a response code, or silence
	asked   int
	clients []net.Conn
	over    bool
}

// The response codes of RFC 1035, and one for no response at all.
const (
	noTrouble byte = 0
	servFail  byte = 2
	nxDomain  byte = 3
	silence   byte = 0xff
)

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	s := &nameServer{socket: socket, names: map[string][]netip.Addr{}}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		eventstest.Check(t, socket.Close())
		serving.Wait()
		s.close()
	})
	return s
}

// set has a name resolve to these addresses.
func (s *nameServer) set(name string, addrs ...string) {
	var parsed []netip.Addr
	for _, addr := range addrs {
		parsed = append(parsed, netip.MustParseAddr(addr))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = parsed
}

// answers sets the response instead of addresses.
func (s *nameServer) answers(trouble byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

// questions returns how many questions were asked.
func (s *nameServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// option makes a coordinator ask this server.
func (s *nameServer) option() coordinator.Option {
	resolver := &net.Resolver{PreferGo: true, Dial: s.dial}
	return session.OptionFunc(func(c *session.Config) { c.Lookup = resolver.LookupNetIP })
}

// behind makes a coordinator ask another server first, in each lookup, as a system with a list of them does.
func (s *nameServer) behind(first *nameServer) coordinator.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Lookup = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
			const questions = 2 // for either family of addresses
			var dials atomic.Int32
			resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) <= questions {
					return first.dial(ctx, network, addr)
				}
				return s.dial(ctx, network, addr)
			}}
			return resolver.LookupNetIP(ctx, network, host)
		}
	})
}

// dial keeps the connections that it returns: a lookup that is given up reads on for seconds, for other callers
// of the same lookup.
func (s *nameServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, net.ErrClosed
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", s.socket.LocalAddr().String())
	if err == nil {
		s.clients = append(s.clients, conn)
	}
	return conn, err
}

func (s *nameServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, conn := range s.clients {
		_ = conn.Close() // the resolver has closed most of them
	}
}

func (s *nameServer) serve() {
	question := make([]byte, 512)
	for {
		n, from, err := s.socket.ReadFrom(question)
		if err != nil {
			return // closed
		}
		if answer := s.answer(question[:n]); answer != nil {
			_, _ = s.socket.WriteTo(answer, from) // what is lost is asked again
		}
	}
}

// answer returns the response to a message with one question.
func (s *nameServer) answer(query []byte) []byte {
	const header, suffix = 12, 4
	if len(query) < header {
		return nil
	}
	end := bytes.IndexByte(query[header:], 0)
	if end < 0 || len(query) < header+end+1+suffix {
		return nil
	}
	var labels []string
	for rest := query[header : header+end]; len(rest) > 0 && len(rest) > int(rest[0]); rest = rest[1+int(rest[0]):] {
		labels = append(labels, string(rest[1:1+int(rest[0])]))
	}
	question := query[header : header+end+1+suffix]
	kind := binary.BigEndian.Uint16(question[end+1:])

	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	addrs, code := s.names[strings.Join(labels, ".")], s.trouble
	if code == silence {
		return nil
	}
	if code == noTrouble && addrs == nil {
		code = nxDomain
	}
	var records []byte
	count := 0
	for _, addr := range addrs {
		const typeA, typeAAAA, fixed = 1, 28, "\xc0\x0c" // a pointer to the name in the question
		if code != noTrouble || addr.Is4() != (kind == typeA) || addr.Is6() != (kind == typeAAAA) {
			continue
		}
		count++
		records = append(records, fixed...)
		records = append(records, question[end+1:]...)      // type and class
		records = binary.BigEndian.AppendUint32(records, 0) // time to live
		records = binary.BigEndian.AppendUint16(records, uint16(addr.BitLen()/8))
		records = append(records, addr.AsSlice()...)
	}
	answer := append([]byte{}, query[:2]...)
	answer = append(answer, 0x85, 0x80|code, 0, 1, 0, byte(count), 0, 0, 0, 0) // a response, authoritative, recursion
	return append(append(answer, question...), records...)
}
