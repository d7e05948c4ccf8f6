// Package program is what the examples to look at have in common, so that each shows only
// its own subject (those to copy stand alone): the flags that say where ZooKeeper is, a
// server inside the program if they name none, the end on a signal, and the exit codes.
//
// The exit code is 0 when the example came to its end, 1 after an error, 2 after a wrong
// command line, and 130 when Ctrl-C or SIGTERM ended it. The signal may come at any time,
// and leaves no node. A second signal ends the program at once, whatever it waits for;
// then its nodes go with its session.
package program
