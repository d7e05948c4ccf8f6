// Package stagetest has what the tests of the examples share: listing the nodes from
// outside, and running a program in virtual time.
package stagetest
