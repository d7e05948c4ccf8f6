// Command zkgrant takes locks on ZooKeeper and shows their queues. docs/command.md is its manual, and zkgrant help its reference.
//
// The commands that hold a lock (run, elect, hold) have work, which holding.go starts at the grant and ends at the loss. The commands
// that look (queue, ls, watch, top, board, elect --watch) or steer (revoke, resize) get a coordinator from settings.ask. The exporter
// opens one without waiting for a server, and the doctor opens a session of its own. Messages go through the console, for people or as
// JSON.
//
// On Linux a command dies with zkgrant, even if KILL ends zkgrant; the command's own children do not. While STOP halts zkgrant, the
// lock is not watched, as no program can catch STOP. With TSTP (Ctrl-Z), zkgrant halts the command first, and CONT lets the command go
// on only if the lock is still held.
package main
