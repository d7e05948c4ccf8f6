// Package child runs the binary of a test a second time, in a process that does something for the test: it can be
// halted, or has a heap of its own.
//
// Such a process finds a job in an environment variable, which [Job] reads in TestMain, and does that and no test. It
// talks to the test by its standard input and output; what it writes to its standard error fails the test. It ends
// when its input does, and where the system can see to that, when the test's process ends in whatever way.
//
// [Run] does the same with another program.
//
// The test of this package shows how it is used:
//
//	go test ./coordinator/reliability/child
package child
