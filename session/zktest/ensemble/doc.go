// Package ensemble starts real Apache ZooKeeper servers for tests: one standalone, or several that elect a leader.
//
// It owns the server processes and their folders. Everything listens on loopback only, everything is written to the
// test's temporary folder, and every process is gone when the test has ended, also when the test process itself was
// killed (on Linux by the kernel, elsewhere only after an orderly end).
//
// The servers are tuned for tests: small heaps, a short tick, containers reaped quickly,
// every four-letter word allowed, no limit on connections, and no fsync. To go without it
// is safe against everything that this package can do to a server: killing a process
// loses nothing that it had handed to the operating system.
//
// The package never talks to a server as a client does; it asks it the four-letter words srvr and mntr. It uses the real
// clock and real sockets, so it cannot be used inside a testing/synctest bubble. Package zktest is for that.
//
// It is there for the tests of this module and may change with them.
package ensemble
