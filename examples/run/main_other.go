//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "run: this system has neither process groups nor signals to pass on")
	os.Exit(125)
}
