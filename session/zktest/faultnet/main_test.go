package faultnet_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server behind a network, in memory and in virtual time.
type rig struct {
	*testing.T
	srv *zktest.Server
	net *faultnet.Network
}

// bubble runs the test with a network of its own.
func bubble(t *testing.T, rule faultnet.Rule, test func(r *rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		test(&rig{T: t, srv: srv, net: faultnet.New(srv.DialContext, rule)})
	})
}

// dial returns a connection without a session.
func (r *rig) dial() *raw {
	r.Helper()
	conn, err := r.net.Dial(r.Context(), "tcp", r.srv.Addr())
	if err != nil {
		r.Fatal(err)
	}
	c := &raw{T: r.T, Conn: conn}
	r.Cleanup(func() { _ = conn.Close() })
	return c
}

// session returns a connection with a session.
func (r *rig) session() *raw {
	r.Helper()
	c := r.dial()
	c.hello()
	if _, err := c.receive(); err != nil {
		r.Fatal(err)
	}
	return c
}

// raw writes and reads frames.
type raw struct {
	*testing.T
	net.Conn
	xid int32
}

// send writes a frame.
func (c *raw) send(body []byte) {
	c.Helper()
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		c.Error(err)
	}
}

func (c *raw) hello() {
	c.Helper()
	body := make([]byte, 4+8, 44)
	body = binary.BigEndian.AppendUint32(body, uint32(10*time.Second/time.Millisecond))
	body = binary.BigEndian.AppendUint64(body, 0)
	body = binary.BigEndian.AppendUint32(body, 16)
	c.send(append(body, make([]byte, 16)...))
}

// ask sends a request and returns its xid.
func (c *raw) ask(op zktest.Op, fields ...any) int32 {
	c.Helper()
	c.xid++
	body := binary.BigEndian.AppendUint32(nil, uint32(c.xid))
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
	c.send(body)
	return c.xid
}

func (c *raw) create(path string) int32 {
	c.Helper()
	return c.ask(zktest.OpCreate, path, "", 1, 31, "world", "anyone", 0)
}

// receive returns the next frame's xid.
func (c *raw) receive() (int32, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return 0, fmt.Errorf("in the middle of a frame: %w", err)
	}
	return int32(binary.BigEndian.Uint32(body)), nil
}

// received reads until nothing comes for a second.
func (c *raw) received() (xids []int32, ended error) {
	c.Helper()
	for {
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			c.Fatal(err)
		}
		xid, err := c.receive()
		if err != nil {
			return xids, err
		}
		xids = append(xids, xid)
	}
}

// within returns a context that ends after a time.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	r.Cleanup(cancel)
	return ctx
}
