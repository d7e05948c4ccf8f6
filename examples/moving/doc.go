// Package moving holds the code of the page docs/moving.md, for users that move from another library.
//
// It exports nothing: its tests run what the page shows on a server inside the program, and check that the page shows it.
//
//	go test ./examples/moving
package moving
