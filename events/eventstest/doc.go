// Package eventstest waits in tests: for a value, for a condition, and for a test in virtual time that hangs.
//
// Nothing in it has a limit in seconds of the wall clock. Outside of virtual time it counts polls, which take longer on a
// machine with other work. In virtual time it waits for minutes, which pass in less than a second.
// It is for tests only: the architecture test refuses any other import.
package eventstest
