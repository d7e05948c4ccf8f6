// Package eventstest waits in tests: for a value, for a condition, and for a test in
// virtual time that hangs.
//
// Nothing in it has a limit in seconds of the wall clock. Outside of virtual time it
// counts polls, which take longer on a machine with other work. In virtual time it waits
// for minutes, which pass in about a second.
//
// The watchdog of virtual time ends a test that is in one line for longer than a round of
// ten minutes. Exception: a goroutine is in time.Sleep. The watchdog cannot tell a wait
// for a timer or a ticker from any other wait: let hours pass with time.Sleep.
//
// Expect, Equal, Contains and ErrorIs are assertions in one line. Process runs a program
// beside a test, and Screen takes what it prints. Serve is a server on loopback.
//
// It is for tests only: the linter refuses any other import.
package eventstest
