// Package opcode names the operations of the protocol.
package opcode

import "fmt"

// The operations. Connect is not one of the protocol's: it represents an answered
// handshake.
const (
	Connect         int32 = 0
	Create          int32 = 1
	Delete          int32 = 2
	Exists          int32 = 3
	GetData         int32 = 4
	SetData         int32 = 5
	GetACL          int32 = 6
	SetACL          int32 = 7
	GetChildren     int32 = 8
	Sync            int32 = 9
	Ping            int32 = 11
	GetChildren2    int32 = 12
	Check           int32 = 13
	Multi           int32 = 14
	Create2         int32 = 15
	Reconfig        int32 = 16
	CreateContainer int32 = 19
	CreateTTL       int32 = 21
	CloseSession    int32 = -11
	Auth            int32 = 100
	SetWatches      int32 = 101
	SASL            int32 = 102
)

// Name returns the name of an operation in ZooKeeper's own sources.
func Name(op int32) string {
	names := [...]string{
		Connect: "connect", Create: "create", Delete: "delete", Exists: "exists", GetData: "getData",
		SetData: "setData",
		GetACL:  "getACL", SetACL: "setACL", GetChildren: "getChildren", Sync: "sync", Ping: "ping",
		GetChildren2: "getChildren2", Check: "check", Multi: "multi", Create2: "create2",
		Reconfig:        "reconfig",
		CreateContainer: "createContainer", CreateTTL: "createTTL", Auth: "auth", SetWatches: "setWatches",
		SASL: "sasl",
	}
	switch {
	case op == CloseSession:
		return "closeSession"
	case op >= 0 && int(op) < len(names) && names[op] != "":
		return names[op]
	default:
		return fmt.Sprint("operation ", op)
	}
}
