// Command table prints the table of what was measured, from a file of figures.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one file of figures is needed, not %d", len(args))
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	figures, err := reliability.Read(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", args[0], err)
	}
	_, err = io.WriteString(os.Stdout, reliability.Table(figures))
	return err
}
