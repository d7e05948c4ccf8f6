package zktest

import "time"

// Setting configures a server before it starts.
type Setting func(*Server)

// Tick sets the tick, 2 s by default. Session timeouts are clamped to between 2 and 20
// ticks, and sessions end at multiples of a tick.
func Tick(d time.Duration) Setting {
	return func(s *Server) { s.tick = d }
}

// InMemory makes a server that can be reached only through [Server.DialContext]. Inside a
// testing/synctest bubble, it is implied.
func InMemory() Setting {
	return func(s *Server) { s.inMemory = true }
}

// CheckInterval sets how often the server checks for containers and nodes with a TTL to
// delete; the default is every minute. It is like a real server's
// znode.container.checkIntervalMs.
func CheckInterval(d time.Duration) Setting {
	return func(s *Server) { s.checkInterval = d }
}

// ExtendedTypes makes the server accept nodes with a TTL. Without it, they are refused
// with [Unimplemented], as by a real server without extendedTypesEnabled.
func ExtendedTypes() Setting {
	return func(s *Server) { s.extendedTypes = true }
}

// EnforceQuotas makes the server obey the quotas that clients write under
// /zookeeper/quota, like a real server with enforceQuota. It supports only the hard limit
// on the number of nodes. [Server.LimitNodes] implies it.
func EnforceQuotas() Setting {
	return func(s *Server) { s.quotas = true }
}

// ZooKeeper34 removes what the 3.4 series lacks: create2, containers, nodes with a TTL,
// and removing a watch. Such a request is answered with [Unimplemented], and costs the
// client its connection.
func ZooKeeper34() Setting {
	return func(s *Server) { s.dialect = zooKeeper34 }
}

// ClickHouseKeeper makes the server behave like ClickHouse Keeper. A session ends with
// its connection, and no other connection resumes it: a client that tries gets a new
// session. The requests that [ZooKeeper34] lacks, and setWatches, cost the client its
// connection without an answer. Newer versions of Keeper support more requests.
func ClickHouseKeeper() Setting {
	return func(s *Server) { s.dialect = clickHouseKeeper }
}

// JuteMaxBuffer makes the server die at the end of a session whose transaction is too
// large to be read again, as servers since 3.6 do (ZOOKEEPER-4306). The transaction lists
// every ephemeral node of the session, and may have twice that many bytes. From then on,
// the server refuses connections, and [Server.Dead] returns true. Real servers use
// 1,048,575 unless jute.maxbuffer is set. Without this setting a session may have any
// number of nodes, as before 3.6.
func JuteMaxBuffer(bytes int) Setting {
	return func(s *Server) { s.maxBuffer = bytes }
}

// dialect is the kind of server that is simulated.
type dialect uint8

const (
	zooKeeper38 dialect = iota
	zooKeeper34
	clickHouseKeeper
)

// lacks reports whether such a server lacks the request, although this one has it.
func (d dialect) lacks(op Op) bool {
	switch op {
	case OpCreate2, OpCreateContainer, OpCreateTTL, OpCheckWatches, OpRemoveWatches:
		return d != zooKeeper38
	case OpSetWatches, OpSASL:
		return d == clickHouseKeeper
	default:
		return false
	}
}
