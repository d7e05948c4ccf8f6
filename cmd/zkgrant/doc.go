// Command zkgrant takes locks on ZooKeeper and shows their queues. docs/command.md is its
// manual; "zkgrant help" prints the reference.
//
// The commands that hold a lock (run, elect, hold) have work, which holding.go starts at
// the grant and ends at the loss. The commands that read (queue, ls, watch, top, board,
// elect --watch) or change (revoke, resize) get a coordinator from settings.ask. The
// exporter opens one without waiting for a server, and the doctor opens its own session.
// Messages go through the console, as text or as JSON.
//
// A supervisor (supervise.go) ends the command in time even if zkgrant is killed, or
// halted by STOP. On TSTP (Ctrl-Z), zkgrant halts the command first; on CONT, it resumes
// the command only if the lock is still held.
package main
