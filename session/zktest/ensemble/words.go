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

// wordTimeout limits one query to a server. On loopback, an answer takes a millisecond.
// If a server is stopped, its kernel accepts the connection, and no answer comes.
const wordTimeout = 500 * time.Millisecond

// longTimeout is the limit for every word except srvr. For mntr, a server writes its
// counters one by one, and logs a stack trace for each one that can no longer be sent. A
// slow server that is asked, abandoned and asked again would never catch up.
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
	// Closing the connection unblocks the read when the time is up or ctx ends. Closing
	// it twice only returns an error.
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

// status is what a server reports about itself in its answer to srvr.
type status struct {
	version string
	mode    string // "standalone", "leader", "follower", "observer"; empty while it does not serve
	epoch   int64  // of the last leader it followed: the upper half of its zxid
}

// serves reports whether the server accepts clients' requests.
func (s status) serves() bool { return s.mode != "" }

// leads reports whether the server orders the writes.
func (s status) leads() bool { return s.mode == "leader" || s.mode == "standalone" }

// Releases print "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c,
// built on ...", and Debian's build prints "3.8.0-${mvngit.commit.id}, built on ...";
// only the number in front matters.
var (
	versionLine = regexp.MustCompile(`(?mi)^zookeeper version: (\d+(?:\.\d+)*)`)
	modeLine    = regexp.MustCompile(`(?m)^Mode: (\w+)`)
	zxidLine    = regexp.MustCompile(`(?m)^Zxid: 0x([0-9a-f]+)`)
)

// parseStatus parses an answer to srvr. Fields that it does not find stay empty: a server
// that has not joined an ensemble yet answers with a single line that says so.
func parseStatus(answer string) status {
	var s status
	if m := versionLine.FindStringSubmatch(answer); m != nil {
		s.version = m[1]
	}
	if m := modeLine.FindStringSubmatch(answer); m != nil {
		s.mode = m[1]
	}
	if m := zxidLine.FindStringSubmatch(answer); m != nil {
		// A zxid is an unsigned 64-bit number in hexadecimal. So a match is malformed
		// only if it is too long.
		if zxid, err := strconv.ParseUint(m[1], 16, 64); err == nil {
			s.epoch = int64(zxid >> 32)
		}
	}
	return s
}

// parseCounters parses an answer to mntr, which has a name and a value per line. It omits
// values that are not numbers.
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
