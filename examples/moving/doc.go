// Package moving holds the code of the page docs/moving.md, which is for those who
// have locks of another library in production.
//
// There is nothing in it to call: its tests compile what the page shows, run it on a server
// inside the program, and read the page to see that it shows nothing else.
//
//	go test ./examples/moving
package moving
