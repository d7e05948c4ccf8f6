// Package stagetest is what the tests of the examples have in common: a screen that takes what a program prints, an
// outsider's look at the nodes, and a program that runs in a process of its own.
package stagetest
