// Package stagetest is what the tests of the examples have in common: a look at the nodes
// from outside, and a program in virtual time.
package stagetest
