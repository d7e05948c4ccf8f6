package main

import "syscall"

// dieWithParent makes the kernel kill the process when the thread that starts it ends, hence also with this process, however it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// diesWithParent tells whether that works.
const diesWithParent = true
