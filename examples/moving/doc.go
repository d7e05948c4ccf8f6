// Package moving holds the code of the page docs/moving.md, for users that move from another library.
//
// It exports nothing: its tests compile what the page shows, run it on a server inside the program, and check that the page shows
// nothing else.
//
//	go test ./examples/moving
package moving
