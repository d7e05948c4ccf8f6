package zktest

import "time"

// Setting adjusts a server before it starts.
type Setting func(*Server)

// Tick sets the tick, 2 s by default. Session timeouts are held between 2 and
// 20 ticks, and sessions end at multiples of it.
func Tick(d time.Duration) Setting {
	return func(s *Server) { s.tick = d }
}

// InMemory makes a server that only [Server.DialContext] reaches. It is implied
// inside a testing/synctest bubble.
func InMemory() Setting {
	return func(s *Server) { s.inMemory = true }
}

// CheckInterval sets how often the server looks for containers and nodes with a time to live that it has to delete; the default is
// every minute. It is like znode.container.checkIntervalMs of a real server.
func CheckInterval(d time.Duration) Setting {
	return func(s *Server) { s.checkInterval = d }
}

// ExtendedTypes makes the server take nodes with a time to live. Without it they are answered with [Unimplemented], as by a real
// server without extendedTypesEnabled.
func ExtendedTypes() Setting {
	return func(s *Server) { s.extendedTypes = true }
}

// EnforceQuotas makes the server heed the quotas that clients write under /zookeeper/quota. A real server does so with enforceQuota
// only. The server knows the hard limit on the number of nodes and no others. [Server.LimitNodes] implies it.
func EnforceQuotas() Setting {
	return func(s *Server) { s.quotas = true }
}

// ZooKeeper34 takes away what the 3.4 series lacks: create2, containers, nodes with a time to live, and removing a watch. Such a
// request is answered with [Unimplemented], and costs the client its connection.
func ZooKeeper34() Setting {
	return func(s *Server) { s.dialect = zooKeeper34 }
}

// ClickHouseKeeper makes the server behave like ClickHouse Keeper. A session ends with its connection, and no other connection
// resumes it: a client that asks for that gets a new one. The requests that [ZooKeeper34] lacks, and setWatches, cost the client
// its connection without an answer. Newer versions of Keeper know more requests.
func ClickHouseKeeper() Setting {
	return func(s *Server) { s.dialect = clickHouseKeeper }
}

// JuteMaxBuffer makes the server die at the end of a session whose transaction is too large to be read again,
// as servers since 3.6 do (ZOOKEEPER-4306). The transaction lists every ephemeral node of the session, and may
// have twice the bytes. From then on no connection is made, and [Server.Dead] says so. Real servers take
// 1,048,575 unless jute.maxbuffer says otherwise. Without this setting a session may have any number of nodes,
// as before 3.6.
func JuteMaxBuffer(bytes int) Setting {
	return func(s *Server) { s.maxBuffer = bytes }
}

// dialect is the kind of server that this one stands in for.
type dialect uint8

const (
	zooKeeper38 dialect = iota
	zooKeeper34
	clickHouseKeeper
)

// lacks reports whether such a server does not know the request, although this one does.
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
