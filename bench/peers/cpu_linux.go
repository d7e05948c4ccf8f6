package peers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit in which Linux tells of processor time.
const tick = 10 * time.Millisecond

// processorTime returns how long a process has computed so far, in all its threads.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	// The second field is the program's name in brackets, and may have anything in it. Counted from there, the twelfth
	// and thirteenth are the time in the program and in the kernel.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("peers: of process %d the kernel says %q", pid, stat)
	}
	var total time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("peers: of process %d the kernel says %q", pid, stat)
		}
		total += time.Duration(ticks) * tick
	}
	return total, nil
}
