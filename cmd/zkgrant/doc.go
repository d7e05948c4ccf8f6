// Command zkgrant takes locks on ZooKeeper, and shows who has them. docs/command.md is its manual, and zkgrant help
// its reference.
//
// What holds a lock (run, elect, hold) is a work, which holding.go starts at the grant and ends at the loss. What
// looks (queue, ls, watch, top) or steers (revoke, resize) asks once through settings.ask. Both say what happens through
// the console, for people or as JSON.
//
// A command dies with zkgrant, even if KILL ends it, on Linux; the command's own children do not. While zkgrant is
// halted by STOP nobody looks after the lock, as no program hears of STOP; with TSTP (Ctrl-Z) the command is halted
// first, and CONT lets it go on only if the lock is still held.
package main
