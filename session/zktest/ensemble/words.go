package ensemble

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// wordTimeout bounds one question to a server. On loopback an answer takes a millisecond.
// If a server is stopped its kernel accepts the connection, and there is no answer.
const wordTimeout = 500 * time.Millisecond

// longTimeout is that of every word but srvr. A server writes its counters one by one.
// For each that nobody reads any more it logs a stack: a slow server that is asked, given
// up and asked again is never done with that.
const longTimeout = 20 * wordTimeout

// Ask sends a four-letter word and returns the answer, which ends when the server closes
// the connection.
func Ask(ctx context.Context, addr, word string) (string, error) {
	limit := longTimeout
	if word == "srvr" {
		limit = wordTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("ensemble: asking %s %s: %w", addr, word, err)
	}
	// Closing the connection makes a read return when the time is up or the caller gives
	// up. To close it twice returns an error that says just that.
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("ensemble: asking %s %s: %w", addr, word, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("ensemble: asking %s %s: %w", addr, word, err)
	}
	return string(answer), nil
}

// status is what a server says about itself in its answer to srvr.
type status struct {
	version string
	mode    string // "standalone", "leader", "follower", "observer"; empty while it does not serve
	epoch   int64  // of the last leader it followed: the upper half of its zxid
}

// serves reports whether the server takes requests of clients.
func (s status) serves() bool { return s.mode != "" }

// leads reports whether the server is the one that orders the writes.
func (s status) leads() bool { return s.mode == "leader" || s.mode == "standalone" }

// Releases print "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c,
// built on ...", Debian's build "3.8.0-${mvngit.commit.id}, built on ..."; only the
// number in front is of interest.
var (
	versionLine = regexp.MustCompile(`(?mi)^zookeeper version: (\d+(?:\.\d+)*)`)
	modeLine    = regexp.MustCompile(`(?m)^Mode: (\w+)`)
	zxidLine    = regexp.MustCompile(`(?m)^Zxid: 0x([0-9a-f]+)`)
)

// parseStatus reads an answer to srvr. What it does not find stays empty: a server that
// has not joined an ensemble yet answers with one line that says so.
func parseStatus(answer string) status {
	var s status
	if m := versionLine.FindStringSubmatch(answer); m != nil {
		s.version = m[1]
	}
	if m := modeLine.FindStringSubmatch(answer); m != nil {
		s.mode = m[1]
	}
	if m := zxidLine.FindStringSubmatch(answer); m != nil {
		// A zxid is an unsigned number of 64 bits in hexadecimal. So a match is malformed
		// only if it is too long.
		if zxid, err := strconv.ParseUint(m[1], 16, 64); err == nil {
			s.epoch = int64(zxid >> 32)
		}
	}
	return s
}

// parseCounters reads an answer to mntr: a name and a value in each line. Values that are
// no numbers are left out.
func parseCounters(answer string) map[string]float64 {
	counters := make(map[string]float64)
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			counters[name] = number
		}
	}
	return counters
}
