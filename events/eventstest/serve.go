package eventstest

import (
	"net"
	"sync"
	"testing"
)

// Serve listens on 127.0.0.1 until the test ends, and returns the address. It calls serve
// for each connection, in a goroutine of its own, and then closes the connection. The
// test must close its own end of each one.
func Serve(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Must(tb, err)
	var running sync.WaitGroup
	running.Go(func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}
