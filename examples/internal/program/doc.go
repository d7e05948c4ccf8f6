// Package program has what the demonstration programs share: the flags for ZooKeeper's
// servers, a server inside the program as the default, signal handling, and exit codes.
// The examples that users copy do not use it.
//
// The exit code is 0 if the example ran to its end, 1 after an error, 2 for a wrong
// command line, and 130 if Ctrl-C or SIGTERM stopped it. A signal may come at any time,
// and no node is left behind. A second signal kills the program at once; its nodes are
// then deleted when its session expires.
package program
