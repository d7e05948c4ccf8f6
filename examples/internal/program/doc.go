// Package program is what the examples to look at have in common, so that each of them shows
// only its own subject (those to copy stand alone): the flags that say where ZooKeeper is, a server inside the
// program when they name none, the end after a while or on a signal, and the exit
// codes.
//
// An example's exit code is 0 when it came to its end, 1 when something went wrong,
// 2 when it was called wrongly, and 130 when Ctrl-C or SIGTERM ended it, which may
// come at any time and leaves no node. A second signal ends the program at once,
// whatever it waits for; then its nodes go with its session.
package program
