//go:build !unix

package histories

// runChild does nothing: on this system no process can be halted, so there are no
// children.
func runChild() {}
