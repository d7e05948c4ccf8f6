package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// visible returns the processes that wanted accepts, as far as /proc shows them, or nil
// without /proc. It allocates very little, because the command may have to be ended when
// memory has run out.
func visible(wanted func(stat) bool) (all []stat) {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(proc) }() // it was only read
	var buffer [4096]byte
	for {
		n, err := unix.ReadDirent(proc, buffer[:])
		if err != nil || n <= 0 {
			return all
		}
		// An entry has an inode number and an offset of 8 bytes each, its length, a type,
		// and its name.
		const length, name = 16, 19
		for entry := buffer[:n]; len(entry) > name; entry = entry[binary.NativeEndian.Uint16(entry[length:]):] {
			pid, ok := number(entry[name:])
			if !ok {
				continue
			}
			if p, ok := processStat(pid); ok && wanted(p) {
				all = append(all, p)
			}
		}
	}
}

// number parses the decimal number at the beginning of the text.
func number(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n, ok = 10*n+int(c-'0'), true
	}
	return n, ok
}

// contained reports whether this process is in a different PID namespace than the
// system's init.
func contained() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO
	is, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && is != first
}

// supervisorName is the process name of a supervisor, by which other zkgrants recognise
// it.
const supervisorName = "zk-supervisor"

// nameSupervisor gives this process that name. Without /proc it does nothing, and nobody
// could read the name.
func nameSupervisor() { _ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) }

func processStat(pid int) (s stat, ok bool) {
	file, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, false // it has ended
	}
	var buffer [1024]byte
	n, err := unix.Read(file, buffer[:])
	if closed := unix.Close(file); err != nil || closed != nil {
		return s, false
	}
	// The name in parentheses may contain any characters, so search for the last
	// parenthesis. After it come the state and then numbers.
	text := buffer[:n]
	name := bytes.LastIndexByte(text, ')')
	s.supervises = bytes.HasSuffix(text[:max(name, 0)], []byte("("+supervisorName))
	text = text[name+1:]
	if len(text) < len(" S 1") {
		return s, false
	}
	s.pid, s.state = pid, text[1]
	const last = 17
	for field := 1; field <= last; field++ {
		next := bytes.IndexByte(text[1:], ' ')
		if next < 0 {
			return s, false
		}
		text = text[1+next:]
		value, ok := number(text[1:])
		switch field {
		case 1:
			s.parent = value
		case 2:
			s.group = value
		case 3:
			s.session = value
		case last:
			s.threads = value
		}
		if !ok && field <= 3 {
			return s, false
		}
	}
	return s, true
}
