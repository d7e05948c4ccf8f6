package main

import (
	"fmt"
	"strings"
)

// codes are the exit codes, as --help and docs/command.md have them.
func codes() [][2]string {
	return [][2]string{
		{"0", "it is done; of run and elect, the command has ended with 0"},
		{"1", "queue --held, revoke: not held; ls: no such path; doctor: something is bad"},
		{"1 to 122", "of run and elect: the command's own, as are those below if it chooses to use them"},
		{"123", "the lock was lost, and the command, if it was started, was ended"},
		{"124", "the lock was not granted, with --try or within --wait; see --conflict-code"},
		{"125", "zkgrant failed: wrong arguments, no server, no permission, a run that would wait for itself"},
		{"126", "the command cannot be started"},
		{"127", "the command was not found"},
		{"128 + n", "signal n ended the command, the waiting for the lock, or a command that only asks"},
	}
}

// codesHelp is the table for --help.
func codesHelp() string {
	var out strings.Builder
	out.WriteString("\nExit codes:")
	for _, row := range codes() {
		fmt.Fprintf(&out, "\n  %-9s %s", row[0], row[1])
	}
	return out.String()
}
