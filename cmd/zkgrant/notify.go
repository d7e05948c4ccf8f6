//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// manager is the service manager that has started this process, such as systemd. It
// receives datagrams on the socket in NOTIFY_SOCKET; see sd_notify(3). Sending never
// blocks. If there is no room, the datagram is dropped and sent again at the next turn of
// the loop.
type manager struct {
	socket *net.UnixConn
	now    notice // with what was reported earlier
	sent   notice
	watch  *time.Ticker // for the watchdog; nil if there is none
	beat   bool         // a sign of life is due
}

// notice is the state of this process for the manager.
type notice struct {
	ready, stopping bool
	status          string
}

// theirs returns the names of the variables that a manager sets. They are meant only for
// this process.
func theirs() []string { return []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} }

// findManager returns the manager of this process, or nil, and removes its variables from
// the environment, so that the command does not inherit them.
func findManager(c *console) *manager {
	found := map[string]string{}
	for _, name := range theirs() {
		found[name] = os.Getenv(name)
		_ = os.Unsetenv(name) // it cannot fail for these names
	}
	address := found["NOTIFY_SOCKET"]
	if address == "" {
		return nil
	}
	socket, err := dialManager(address)
	if err != nil {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "NOTIFY_SOCKET: %v", err)
		return nil
	}
	m := &manager{socket: socket}
	every, err := strconv.ParseInt(found["WATCHDOG_USEC"], 10, 64)
	if pid := found["WATCHDOG_PID"]; err == nil && every > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.watch, m.beat = time.NewTicker(beats(time.Duration(every)*time.Microsecond)), true
	}
	return m
}

// beats returns the time between two signs of life for a watchdog with that timeout.
// systemd recommends half of it; a third leaves room for a slow turn of the loop.
func beats(watchdog time.Duration) time.Duration { return max(watchdog/3, time.Microsecond) }

func dialManager(address string) (*net.UnixConn, error) {
	if address[0] != '/' && address[0] != '@' { // @ is the abstract namespace
		return nil, fmt.Errorf("%s must be a path, or @ and a name", address)
	}
	return net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
}

// due returns a channel that receives when a sign of life is due. It is nil without a
// watchdog.
func (m *manager) due() <-chan time.Time {
	if m == nil || m.watch == nil {
		return nil
	}
	return m.watch.C
}

// turn sends the manager what has changed, and a sign of life if one is due.
func (m *manager) turn(now notice) {
	if m == nil {
		return
	}
	now.ready, now.stopping = now.ready || m.now.ready, now.stopping || m.now.stopping
	m.now = now
	// systemd ignores READY in the datagram of STOPPING, and after it.
	if now.ready && now.stopping && !m.sent.ready && !m.sent.stopping {
		first := notice{ready: true, status: m.sent.status}
		if !m.send(first.since(m.sent, false)) {
			return
		}
		m.sent = first
	}
	if text := now.since(m.sent, m.beat); text == "" || m.send(text) {
		m.sent, m.beat = now, false
	}
}

// since returns the datagram for what has changed, or "" if nothing has.
func (s notice) since(before notice, beat bool) string {
	var lines []string
	if s.ready && !before.ready {
		lines = append(lines, "READY=1")
	}
	if s.stopping && !before.stopping {
		lines = append(lines, "STOPPING=1")
	}
	if s.status != before.status {
		lines = append(lines, "STATUS="+shortened(printable(s.status)))
	}
	if beat {
		lines = append(lines, "WATCHDOG=1")
	}
	return strings.Join(lines, "\n")
}

// shortened truncates a long status. A manager drops a datagram of more than 4,096 bytes
// with everything in it, including READY and STOPPING.
func shortened(status string) string {
	const most = 1000
	if len(status) <= most {
		return status
	}
	return strings.ToValidUTF8(status[:most], "") + "…"
}

// send reports whether the datagram was sent.
func (m *manager) send(text string) (sent bool) {
	raw, err := m.socket.SyscallConn()
	if err != nil {
		return false
	}
	// net.UnixConn.Write would wait for room.
	err = raw.Write(func(fd uintptr) bool {
		_, err := unix.Write(int(fd), []byte(text))
		sent = err == nil
		return true
	})
	return err == nil && sent
}

// close tells the manager that this process is about to exit, and closes the socket.
func (m *manager) close() {
	if m == nil {
		return
	}
	m.turn(notice{stopping: true, status: m.now.status})
	if m.watch != nil {
		m.watch.Stop()
	}
	_ = m.socket.Close() // nothing is left to send
}

// notice returns the current state for the service manager. over is whether nothing is
// left of the work.
func (h *holding) notice(over bool) notice {
	switch {
	case h.duty.GivenUp():
		return notice{stopping: !h.again, status: "lost " + h.name()}
	case over || h.duty.Ending() && (!h.again || h.stopped): // a loss may follow, and a new campaign
		return notice{stopping: true, status: "releasing " + h.name()}
	case h.granted:
		return notice{ready: true, status: fmt.Sprintf("holding %s since %s", h.name(), h.began.Format(time.DateTime))}
	}
	ahead, queued := h.lock.Position()
	if !queued {
		return notice{status: "waiting for " + h.servers}
	}
	return notice{ready: !h.isHold, status: fmt.Sprintf("waiting for %s, %d ahead", h.name(), ahead)}
}
