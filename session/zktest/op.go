package zktest

import "fmt"

// Op is a kind of client request. The values are those of the protocol.
type Op int32

// The requests that this server supports. OpConnect is the handshake, which has no number
// of its own in the protocol.
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

// opError marks a failed part in the answer to a multi, and the end of the answer.
const opError Op = -1

// String returns the name of the request in the ZooKeeper sources.
func (op Op) String() string {
	names := map[Op]string{
		OpConnect: "connect", OpClose: "close", OpCreate: "create", OpDelete: "delete", OpExists: "exists",
		OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
		OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2",
		OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpCheckWatches: "checkWatches",
		OpRemoveWatches: "removeWatches", OpCreateContainer: "createContainer", OpCreateTTL: "createTTL",
		OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl",
	}
	if name, known := names[op]; known {
		return name
	}
	return fmt.Sprintf("op %d", int32(op))
}

// knownElsewhere reports whether a real server of the 3.8 series supports the request and
// this server does not. Such a request is refused. A number that no server knows also
// costs the client its connection.
func knownElsewhere(op Op) bool {
	switch op {
	case 16, 20, 22, 103, 104, 105, 106, 107:
		return true
	}
	return false
}

// Code is an error code of the protocol. It is an error itself, so errors.As finds it in
// the errors of the inspection methods.
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

// Error returns the name of the code.
func (c Code) Error() string {
	names := map[Code]string{
		ok: "ok", RuntimeInconsistency: "runtime inconsistency", MarshallingError: "marshalling error",
		Unimplemented: "unimplemented", BadArguments: "bad arguments", NoNode: "no node",
		NoAuth: "not authorized", BadVersion: "bad version",
		NoChildrenForEphemerals: "no children for ephemerals", NodeExists: "node exists",
		NotEmpty: "not empty", SessionExpired: "session expired", InvalidACL: "invalid acl",
		AuthFailed: "authentication failed", SessionMoved: "session moved", NoWatcher: "no watcher",
		QuotaExceeded: "quota exceeded", Throttled: "throttled",
	}
	if name, known := names[c]; known {
		return "zktest: " + name
	}
	return fmt.Sprintf("zktest: code %d", int32(c))
}
