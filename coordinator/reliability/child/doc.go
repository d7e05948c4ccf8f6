// Package child runs the binary of a test a second time, in a process that can be halted,
// or has a heap of its own.
//
// Such a process finds a job in an environment variable, which [Job] reads in TestMain.
// It does that job and no test. It talks to the test by its standard input and output;
// what it writes to its standard error fails the test. It ends when its input does, and
// where the system supports it, when the test's process ends in whatever way.
//
// [Run] does the same with another program.
package child
