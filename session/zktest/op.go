package zktest

import "fmt"

// Op is a kind of client request. The values are those of the protocol.
type Op int32

// The requests this server knows. OpConnect stands for the handshake, which has
// no number of its own on the wire.
const (
	OpConnect         Op = -10
	OpClose           Op = -11
	OpCreate          Op = 1
	OpDelete          Op = 2
	OpExists          Op = 3
	OpGetData         Op = 4
	OpSetData         Op = 5
	OpGetACL          Op = 6
	OpSetACL          Op = 7
	OpGetChildren     Op = 8
	OpSync            Op = 9
	OpPing            Op = 11
	OpGetChildren2    Op = 12
	OpCheck           Op = 13
	OpMulti           Op = 14
	OpCreate2         Op = 15
	OpCheckWatches    Op = 17
	OpRemoveWatches   Op = 18
	OpCreateContainer Op = 19
	OpCreateTTL       Op = 21
	OpAuth            Op = 100
	OpSetWatches      Op = 101
	OpSASL            Op = 102
)

// opError marks a failed part in the answer to a multi, and its end.
const opError Op = -1

// String returns the name of the request in the ZooKeeper sources.
func (op Op) String() string {
	switch op {
	case OpConnect:
		return "connect"
	case OpClose:
		return "close"
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpSetACL:
		return "setACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpCheckWatches:
		return "checkWatches"
	case OpRemoveWatches:
		return "removeWatches"
	case OpCreateContainer:
		return "createContainer"
	case OpCreateTTL:
		return "createTTL"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSASL:
		return "sasl"
	}
	return fmt.Sprintf("op %d", int32(op))
}

// knownElsewhere reports whether a real server of the 3.8 series has the request although
// this one does not. Such a request is refused. A number that no server knows costs the
// client its connection as well.
func knownElsewhere(op Op) bool {
	switch op {
	case 16, 20, 22, 103, 104, 105, 106, 107:
		return true
	}
	return false
}

// Code is an error code of the protocol. It is an error itself, so errors.As finds it in
// what the inspection methods return.
type Code int32

// The codes that this server answers with, and those that only [Fail] produces.
const (
	ok                      Code = 0
	RuntimeInconsistency    Code = -2
	MarshallingError        Code = -5
	Unimplemented           Code = -6
	BadArguments            Code = -8
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
	InvalidACL              Code = -114
	AuthFailed              Code = -115
	SessionMoved            Code = -118
	NoWatcher               Code = -121
	QuotaExceeded           Code = -125
	Throttled               Code = -127
)

// Error names the code.
func (c Code) Error() string {
	switch c {
	case ok:
		return "zktest: ok"
	case RuntimeInconsistency:
		return "zktest: runtime inconsistency"
	case MarshallingError:
		return "zktest: marshalling error"
	case Unimplemented:
		return "zktest: unimplemented"
	case BadArguments:
		return "zktest: bad arguments"
	case NoNode:
		return "zktest: no node"
	case NoAuth:
		return "zktest: not authorized"
	case BadVersion:
		return "zktest: bad version"
	case NoChildrenForEphemerals:
		return "zktest: no children for ephemerals"
	case NodeExists:
		return "zktest: node exists"
	case NotEmpty:
		return "zktest: not empty"
	case SessionExpired:
		return "zktest: session expired"
	case InvalidACL:
		return "zktest: invalid acl"
	case AuthFailed:
		return "zktest: authentication failed"
	case SessionMoved:
		return "zktest: session moved"
	case NoWatcher:
		return "zktest: no watcher"
	case QuotaExceeded:
		return "zktest: quota exceeded"
	case Throttled:
		return "zktest: throttled"
	}
	return fmt.Sprintf("zktest: code %d", int32(c))
}
