// Command run holds a lock while a command runs.
//
//	go run ./examples/run -zk host:2181,... /locks/backup -- backup --all
//
// A lock is worth something only where others look for it, so -zk has no default: without it run refuses, with code 125.
//
// It waits for the lock, runs the command, gives the lock back when the command has
// ended, and ends with the command's exit code. If the lock is lost, the command's
// process group is sent TERM, and KILL if there is anything left of it after the
// time of -grace. The lock is then somebody else's for the taking: a command that
// must not work for another moment wants -grace 0, which is KILL at once, and one
// whose effects are on other systems should show them the fencing token.
//
// # The command
//
// The command finds the fencing token in ZKGRANT_TOKEN, as a decimal number, and
// the lock's path in ZKGRANT_PATH. It runs in a process group of its own, in the
// background of the terminal, if there is one: where run's standard input is a
// terminal, that of the command is empty. What the command itself leaves running in
// the background is not waited for.
//
// INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to the group, and run
// waits for what the command makes of them. With TSTP (Ctrl-Z) the group is halted
// before run is, and CONT lets it go on only if the lock is still held. STOP is
// different, as no program hears of it: while run is halted by STOP, nobody looks
// after the lock.
//
// On Linux the command is killed when run itself is, even by KILL; its own children
// are not.
//
// # Exit codes
//
//	0 ... 122  the command's own, as are those below if it chooses to use them
//	123        the lock was lost, and the command, if it had been started, ended
//	124        the lock was not to be had, with -try, or within -max-wait
//	125        run failed: called wrongly, no server, no permission
//	126        the command could not be started
//	127        the command was not found
//	128 + n    signal n ended the command, or the waiting for the lock
//
// The code is the command's only if the lock was held until the command had ended.
//
// The file to start from is hold.go. The program is for Unix systems.
package main
