package faultnet_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server and a network to it, in memory and in virtual time, with one connection
// that has a session.
type rig struct {
	*testing.T
	srv *zktest.Server
	net *faultnet.Network
	net.Conn
	xid int32
}

func bubble(t *testing.T, rule faultnet.Rule, test func(r *rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		r := &rig{T: t, srv: srv, net: faultnet.New(srv.DialContext, rule)}
		r.begin()
		test(r)
	})
}

func bubbles(t *testing.T, name string, rule faultnet.Rule, test func(r *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, rule, test) })
}

// begin makes another connection with another session.
func (r *rig) begin() {
	r.Helper()
	r.Conn = r.dial()
	body := make([]byte, 4+8, 44)
	body = binary.BigEndian.AppendUint32(body, uint32(10*time.Second/time.Millisecond))
	body = binary.BigEndian.AppendUint64(body, 0)
	body = binary.BigEndian.AppendUint32(body, 16)
	r.send(append(body, make([]byte, 16)...))
	_, err := r.receive()
	eventstest.Must(r, err)
}

func (r *rig) dial() net.Conn {
	r.Helper()
	conn, err := r.net.Dial(r.Context(), "tcp", r.srv.Addr())
	eventstest.Must(r, err)
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) send(body []byte) {
	r.Helper()
	_, err := r.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	eventstest.Check(r, err)
}

func (r *rig) ask(op zktest.Op, fields ...any) int32 {
	r.Helper()
	r.xid++
	body := binary.BigEndian.AppendUint32(nil, uint32(r.xid))
	body = binary.BigEndian.AppendUint32(body, uint32(op))
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(f))), f...)
		case int:
			body = binary.BigEndian.AppendUint32(body, uint32(f))
		case bool:
			body = append(body, map[bool]byte{true: 1}[f])
		}
	}
	r.send(body)
	return r.xid
}

func (r *rig) create(path string) int32 {
	r.Helper()
	return r.ask(zktest.OpCreate, path, "", 1, 31, "world", "anyone", 0)
}

// receive returns the xid of the next frame.
func (r *rig) receive() (int32, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, body)
	return int32(binary.BigEndian.Uint32(body)), err
}

// received reads until nothing arrives for a second.
func (r *rig) received() (xids []int32, ended error) {
	r.Helper()
	for {
		eventstest.Must(r, r.SetReadDeadline(time.Now().Add(time.Second)))
		xid, err := r.receive()
		if err != nil {
			return xids, err
		}
		xids = append(xids, xid)
	}
}

// wantEnd fails the test unless an operation has ended with the error, this long after
// the start.
func (r *rig) wantEnd(what string, start time.Time, after time.Duration, err, want error) {
	r.Helper()
	took := time.Since(start)
	eventstest.Expect(r, errors.Is(err, want) && took == after,
		"%s ends with %v after %v, want %v after %v", what, err, took, want, after)
}

func (r *rig) wantAnswers(when string, want ...int32) {
	r.Helper()
	got, _ := r.received()
	eventstest.Expect(r, slices.Equal(got, want), "%s %v is answered, want %v", when, got, want)
}

func (r *rig) wantNodes(when string, want ...string) {
	r.Helper()
	synctest.Wait()
	eventstest.Equal(r, r.srv.Tree(), want, "the nodes %s", when)
}
