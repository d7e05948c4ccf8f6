// Package upgrade has processes of an earlier version of this library and processes of
// this version share locks, as they do during a rolling upgrade. It shows that both read
// what the other one writes: names and data of nodes, records of holders, requests to
// give a lock back.
//
// The earlier version is a commit of this repository. Its tree is taken out of the clone,
// and the program in the folder worker is built in it. The same program is built in this
// tree. It uses only what every version has. What is newer is in a file of its own, which
// is replaced (testdata).
//
// The processes share a standalone real server. They get their orders in lines of JSON.
// While a worker holds a lock, its file is in a folder that represents the lock, and the
// worker looks at the other files there. That is the referee, and uses no lock of any
// library.
//
//	ZKGRANT_REAL=1 go test ./coordinator/reliability/upgrade
//
// A shallow clone has no earlier commit. The test is skipped there, and names the commit
// that it needs.
package upgrade
