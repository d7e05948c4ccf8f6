package ensemble

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Setting changes how the servers of an ensemble are configured; see [Start].
type Setting func(*config)

// config is what all servers of an ensemble share.
type config struct {
	lines      map[string]string // of zoo.cfg
	properties map[string]string // java's -D options
	heap       string
	members    []int // of the initial list; nil: all
	observers  int
	master     bool     // the observers follow server 0; see [ObserverMaster]
	addresses  []string // of the servers, for clients; nil: 127.0.0.1, with a port for each
	via        func(from, to, port int) int
}

// newConfig returns the defaults that doc.go describes, changed by the settings.
func newConfig(settings []Setting) *config {
	c := &config{
		lines: map[string]string{
			"tickTime":               "500",
			"initLimit":              "20",
			"syncLimit":              "10",
			"maxClientCnxns":         "0",     // the default of 60 per address is soon reached on loopback
			"admin.enableServer":     "false", // else every server opens port 8080
			"4lw.commands.whitelist": "*",
			"forceSync":              "no",
			"preAllocSize":           "1024", // kB of each log file; by default 64 MB are written for each
		},
		properties: map[string]string{
			"znode.container.checkIntervalMs": "200", // the default is a check once per minute
			// Without a limit, the servers query each other less and less often while a
			// vote is open, down to once per minute.
			"zookeeper.fastleader.maxNotificationInterval": "500",
			"org.slf4j.simpleLogger.showDateTime":          "true",
			"org.slf4j.simpleLogger.dateTimeFormat":        "HH:mm:ss.SSS",
			"org.slf4j.simpleLogger.showShortLogName":      "true",
			"java.net.preferIPv4Stack":                     "true",
		},
		heap: "96m",
		via:  func(_, _, port int) int { return port },
	}
	for _, set := range settings {
		set(c)
	}
	return c
}

// Tick sets the servers' tickTime, in whole milliseconds; the default is 500 ms. A
// session timeout is clamped to between 2 and 20 ticks.
func Tick(d time.Duration) Setting {
	return Line("tickTime", fmt.Sprint(d.Milliseconds()))
}

// Heap sets the heap of each server in java's notation; the default is 96m.
func Heap(size string) Setting {
	return func(c *config) { c.heap = size }
}

// Observers makes the last n servers observers, which follow the leader and serve
// clients, but do not vote.
func Observers(n int) Setting {
	return func(c *config) { c.observers = n }
}

// ObserverMaster makes the observers follow server 0 instead of the leader; server 0 must
// not lead. The connections from the observers to server 0 do not go through the proxies
// of [QuorumVia].
func ObserverMaster() Setting {
	return func(c *config) { c.master = true }
}

// Line sets a line of zoo.cfg that has no Setting of its own. The ensemble sets ports,
// folders and server lines itself.
func Line(key, value string) Setting {
	return func(c *config) { c.lines[key] = value }
}

// Property sets a system property of the servers' virtual machines.
func Property(key, value string) Setting {
	return func(c *config) { c.properties[key] = value }
}

// Members sets the servers that are initially in the ensemble's list. The others have
// ports and folders, and do not run until [Ensemble.List] names them. The default is all.
func Members(servers ...int) Setting {
	return func(c *config) { c.members = servers }
}

// At makes server i listen for clients on the i-th of these loopback addresses, all on
// the same port, like servers that share a host name. Among each other, the servers use
// 127.0.0.1. At takes one address per server.
func At(addresses ...string) Setting {
	return func(c *config) {
		c.addresses = addresses
		c.properties["java.net.preferIPv4Stack"] = "false"
	}
}

// QuorumVia lets a test put a proxy on 127.0.0.1 between the servers. f returns the port
// through which server from connects to the quorum port of server to: the port itself, or
// that of a proxy. It is called while the ensemble starts, once for each ordered pair,
// and again, with other ports, if the start is repeated or the list changes. Elections
// use another port and bypass the proxy.
func QuorumVia(f func(from, to, port int) int) Setting {
	return func(c *config) { c.via = f }
}

// file returns the zoo.cfg of server i in an ensemble of the members.
func (c *config) file(servers []*server, members []int, i int) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c.lines)) {
		fmt.Fprintf(&b, "%s=%s\n", key, c.lines[key])
	}
	me := servers[i]
	fmt.Fprintf(&b, "dataDir=%s\nclientPortAddress=%s\nclientPort=%d\n", me.dataDir(), me.host, me.ports.client)
	if len(members) == 1 {
		return b.String()
	}
	voters := len(servers) - c.observers
	if i >= voters {
		b.WriteString("peerType=observer\n")
	}
	if c.master && (i == 0 || i >= voters) {
		// Only a leader listens on its quorum port, so an observer's quorum port is free.
		fmt.Fprintf(&b, "observerMasterPort=%d\n", servers[len(servers)-1].ports.quorum)
	}
	for _, j := range members {
		s := servers[j]
		quorum := s.ports.quorum
		if j != i {
			quorum = c.via(i, j, quorum)
		}
		role := ""
		if j >= voters {
			role = ":observer"
		}
		fmt.Fprintf(&b, "server.%d=127.0.0.1:%d:%d%s\n", s.id(), quorum, s.ports.election, role)
	}
	return b.String()
}

// arguments returns the arguments of java for a server of the installation with its
// zoo.cfg at path.
func (c *config) arguments(from Installation, path string) []string {
	args := []string{
		"-Xms16m", "-Xmx" + c.heap, "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", "-Xshare:auto", // a server lives for seconds, so a quick start matters more than speed
		"-XX:-UsePerfData", // otherwise every killed server leaves a file in the system's temporary folder
	}
	if archive := filepath.Join(from.Origin, "classes.jsa"); isFile(archive) { // preloaded classes
		args = append(args, "-XX:SharedArchiveFile="+archive, "-Xlog:disable") // no warning if it belongs to another folder or java
	}
	for _, key := range slices.Sorted(maps.Keys(c.properties)) {
		args = append(args, "-D"+key+"="+c.properties[key])
	}
	return append(args, "-cp", strings.Join(from.Classpath, string(filepath.ListSeparator)), "org.apache.zookeeper.server.quorum.QuorumPeerMain", path)
}
