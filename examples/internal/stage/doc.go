// Package stage is what the tests of the examples have in common: a screen that
// takes what a program prints, an outsider's look at the nodes, and a run of the
// program in a process of its own, ended by Ctrl-C.
package stage
