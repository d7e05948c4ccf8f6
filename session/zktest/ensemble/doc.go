// Package ensemble starts real Apache ZooKeeper servers for tests: a standalone server,
// or several that elect a leader.
//
// It owns the server processes and their folders. Everything listens on loopback only,
// everything is written to the test's temporary folder, and every process is gone when
// the test has ended, even if the test process itself was killed (on Linux by the kernel,
// elsewhere only after an orderly end).
//
// The servers are tuned for tests: small heaps, a short tick, fast container deletion,
// all four-letter words allowed, no limit on connections, and no fsync. Without fsync,
// nothing that this package does to a server loses data: killing a process loses nothing
// that it had handed to the operating system.
//
// The package never talks to a server as a client does; it sends it the four-letter words
// srvr and mntr. It uses the real clock and real sockets, so it does not work inside a
// testing/synctest bubble. Package zktest is for that.
//
// It exists for the tests of this module and may change with them.
package ensemble
