package scale

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// serverVariable makes a process of the test binary a server that runs no tests.
const serverVariable = "ZKGRANT_SCALE_SERVER"

// runServer serves and does not return if this process is a server. The server writes its
// address, and ends when its input ends, so it does not outlive the test.
func runServer() {
	child.Job(serverVariable, func(string) error {
		srv, err := zktest.New()
		if err != nil {
			return err
		}
		defer srv.Close()
		fmt.Println(srv.Addr())
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	})
}

// server is the address of a server in its own process.
type server string

// startServer runs a server until the test ends.
func startServer(t *testing.T) server {
	t.Helper()
	c := child.Start(t, "the server", serverVariable, "serve", nil)
	addr, err := bufio.NewReader(c.Out).ReadString('\n')
	eventstest.Must(t, err)
	return server(strings.TrimSpace(addr))
}

// watches reads the server's own counter.
func (s server) watches(t *testing.T) (n int) {
	t.Helper()
	counters, err := ensemble.Ask(t.Context(), string(s), "mntr")
	eventstest.Must(t, err)
	_, rest, _ := strings.Cut(counters, "zk_watch_count\t")
	_, err = fmt.Sscan(rest, &n)
	eventstest.Must(t, err)
	return n
}
