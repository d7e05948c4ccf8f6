package main

import (
	"fmt"
	"strings"
)

// codes returns the exit codes with their meanings, as --help and docs/command.md list
// them.
func codes() [][2]string {
	return [][2]string{
		{"0", "success; run and elect: the command ended with 0"},
		{"1", "queue --held, revoke: not held; ls: no such path; doctor: a finding is bad"},
		{"1 to 122", "run and elect: the command's own code; it may also use any code below"},
		{"123", "the lock was lost; the command, if started, was ended, unless a line names what KILL has not ended"},
		{"124", "the lock was not granted with --try or within --wait; see --conflict-code"},
		{"125", "zkgrant failed: wrong arguments, no server, no permission, or it would wait for itself"},
		{"126", "the command cannot be started"},
		{"127", "the command was not found"},
		{"128 + n", "signal n ended the command, the wait for the lock, or another zkgrant command"},
	}
}

// codesHelp returns the table of exit codes for --help.
func codesHelp() string {
	var out strings.Builder
	out.WriteString("\nExit codes:")
	for _, row := range codes() {
		fmt.Fprintf(&out, "\n  %-9s %s", row[0], row[1])
	}
	return out.String()
}
