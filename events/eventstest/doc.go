// Package eventstest helps tests wait for a value or a condition, and ends tests that
// hang in virtual time.
//
// It has no limits in wall time. Outside of virtual time it counts polls, which take
// longer on a busy machine. In virtual time it waits for minutes, which pass in about a
// second.
//
// In virtual time, a watchdog ends a test that stays in one line for longer than a round
// of ten minutes, unless a goroutine is in time.Sleep. The watchdog cannot distinguish a
// wait for a timer or a ticker from any other wait, so let hours pass with time.Sleep.
//
// Expect, Equal, Contains and ErrorIs are assertions in one line. Process runs a program
// during a test, and Screen collects its output. Serve runs a server on loopback.
//
// It is for tests only: the linter refuses any other import.
package eventstest
