// Command zkgrant takes locks on ZooKeeper and shows their queues. docs/command.md is its
// manual, and zkgrant help its reference.
//
// The commands that hold a lock (run, elect, hold) have a job, which holding.go starts at
// the grant and ends at the loss. The commands that read (queue, ls, watch, top, board,
// elect --watch) or change (revoke, resize) get a coordinator from settings.ask. The
// exporter opens one without waiting for a server, and the doctor opens its own session.
// Messages go through the console, for people or as JSON.
//
// On Linux a command dies with zkgrant, even if KILL ends zkgrant; the command's own
// children do not. While zkgrant is halted by STOP, which no program can catch, it does
// not watch the lock. On TSTP (Ctrl-Z), zkgrant halts the command first; on CONT, it
// resumes the command only if the lock is still held.
package main
