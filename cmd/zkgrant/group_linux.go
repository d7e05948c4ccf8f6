package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// members returns the processes of the group that have not ended. ok is false where that
// cannot be known: without /proc, or if it hides the processes of other users.
func members(group int) (pids []int, ok bool) {
	if _, _, ok := processStat(1); !ok {
		return nil, false
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer func() { _ = proc.Close() }() // it was only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if state, of, ok := processStat(pid); ok && of == group && state != 'Z' && state != 'X' {
			pids = append(pids, pid)
		}
	}
	return pids, true
}

// processStat returns the state of a process, and its group.
func processStat(pid int) (state byte, group int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false // it has ended
	}
	// The name in parentheses may have any characters, so what follows the last one counts.
	var parent int
	_, err = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d %d", &state, &parent, &group)
	return state, group, err == nil
}
