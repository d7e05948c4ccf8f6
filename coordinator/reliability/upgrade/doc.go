// Package upgrade tests that processes of an earlier version of this library and of this
// version share locks, as they do during a rolling upgrade: each reads what the other one
// writes, which is names and data of nodes, records of holders, and revocation requests.
//
// The earlier version is a commit of this repository. Its tree is extracted from the
// clone, and the program in the folder worker is built in it. The same program is built
// in this tree. It uses only what every version has. Newer features are in a separate
// file, which is replaced for earlier versions (testdata).
//
// The processes share a standalone real server. They receive their orders as lines of
// JSON. While a worker holds a lock, its file is in a folder for that lock, and the
// worker checks the other files there. That is the referee, which uses no lock of any
// library.
//
//	ZKGRANT_REAL=1 go test ./coordinator/reliability/upgrade
//
// A shallow clone lacks the earlier commit. There, the test is skipped, and names the
// commit that it needs.
package upgrade
