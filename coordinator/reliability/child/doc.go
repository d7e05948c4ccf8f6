// Package child runs a test's binary a second time, in a process that can be halted, or
// that has its own heap.
//
// Such a process finds a job in an environment variable, which [Job] reads in TestMain.
// It does that job and runs no tests. It talks to the test through its standard input and
// output; writing to its standard error fails the test. It ends when its input ends, and,
// if the system supports it, when the test's process ends in any way.
//
// [Run] does the same with another program.
package child
