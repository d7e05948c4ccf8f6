package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// serverVariable makes a process of the test binary a server, which runs no tests.
const serverVariable = "ZKGRANT_SCALE_SERVER"

// The questions to a server, one word a line. It answers with a number.
const (
	askExpire  = "expire"  // end all sessions; how many there were
	askWatches = "watches" // how many watches are armed
)

// runServer serves, and does not return, if this process is a server. It ends when its input does, so it does not
// outlive the test.
func runServer() {
	child.Job(serverVariable, func(string) error { return serve(os.Stdin, os.Stdout) })
}

// serve writes its address and then answers.
func serve(in io.Reader, out io.Writer) error {
	srv, err := zktest.New()
	if err != nil {
		return err
	}
	defer srv.Close()
	if _, err := fmt.Fprintln(out, srv.Addr()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := answer(srv, lines.Text())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(srv *zktest.Server, question string) (int, error) {
	switch question {
	case askExpire:
		sessions := srv.Sessions()
		for _, id := range sessions {
			if err := srv.Expire(id); err != nil {
				return 0, err
			}
		}
		return len(sessions), nil
	case askWatches:
		return watches(srv)
	default:
		return 0, fmt.Errorf("no such question: %q", question)
	}
}

// watches reads the server's own counter.
func watches(srv *zktest.Server) (int, error) {
	conn, err := srv.DialContext(context.Background(), "tcp", srv.Addr())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return 0, err
	}
	counters, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(counters)) {
		if number, ok := strings.CutPrefix(line, "zk_watch_count\t"); ok {
			return strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return 0, errors.New("the server does not count watches")
}

// server is a server in a process of its own.
type server struct {
	addr string
	in   io.Writer
	out  *bufio.Scanner
}

// startServer runs a server until the test has ended.
func startServer(t *testing.T) *server {
	t.Helper()
	c := child.Start(t, "the server", serverVariable, "serve", nil)
	s := &server{in: c.In, out: bufio.NewScanner(c.Out)}
	s.addr = s.hear(t)
	if _, _, err := net.SplitHostPort(s.addr); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) hear(t *testing.T) string {
	t.Helper()
	if !s.out.Scan() {
		t.Fatalf("the server has gone: %v", s.out.Err())
	}
	return s.out.Text()
}

// ask returns the server's answer.
func (s *server) ask(t *testing.T, question string) int {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, question); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(s.hear(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
