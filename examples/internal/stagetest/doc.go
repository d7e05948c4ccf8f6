// Package stagetest is what the tests of the examples have in common: an outsider's look at the nodes, and a program in
// virtual time.
package stagetest
