// Package moving tests what docs/moving.md promises: processes with the old lock and
// processes with the new one side by side, on a server inside the test. It exports
// nothing. The tests of docs compile and run the code blocks of the page.
//
//	go test ./examples/moving
package moving
