// Package moving has tests for the page docs/moving.md: processes with the old lock and
// with the new one beside each other, on a server inside the program. It exports nothing.
// The tests of docs compile and run the blocks of the page.
//
//	go test ./examples/moving
package moving
