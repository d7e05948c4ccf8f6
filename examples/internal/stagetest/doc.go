// Package stagetest runs the programs of the examples in virtual time.
package stagetest
