// Command zkgrant takes locks on ZooKeeper and shows their queues. docs/command.md is its manual, and zkgrant help its reference.
//
// The commands that hold a lock (run, elect, hold) do a work, which holding.go starts at the grant and ends at the loss. The commands
// that look (queue, ls, watch, top) or steer (revoke, resize) ask once, through settings.ask. All of them report through the console,
// for people or as JSON.
//
// On Linux a command dies with zkgrant, even if KILL ends zkgrant; the command's own children do not. While STOP halts zkgrant, the
// lock is not watched, as no program can catch STOP. With TSTP (Ctrl-Z), zkgrant halts the command first, and CONT lets the command go
// on only if the lock is still held.
package main
