package peers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit in which Linux reports CPU time.
const tick = 10 * time.Millisecond

// ProcessorTime returns the CPU time of a process so far, in all its threads. If the
// system does not report it, the error wraps [errors.ErrUnsupported].
func ProcessorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	// The second field is the program's name in parentheses, which may contain anything.
	// The twelfth and thirteenth fields after it are user and system time.
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

// Memory returns the memory of a process in bytes. Pages shared between processes count
// for each of them.
func Memory(pid int) (int64, error) {
	return kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
}

// FreeMemory returns how many bytes of memory are available to new processes.
func FreeMemory() (int64, error) { return kilobytes("/proc/meminfo", "MemAvailable:") }

// kilobytes finds the named line in a file of the kernel, and returns its value in bytes.
func kilobytes(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			kb, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("peers: %s says %q: %w", file, line, err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("peers: %s has no %s", file, name)
}

// Descriptors returns how many files and sockets a process may open once it has raised
// its limit to the maximum.
func Descriptors() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("peers: limit of descriptors: %w", err)
	}
	return limit.Max, nil
}
