package main

import "syscall"

// dieWithParent has the kernel kill the process when the thread that starts it
// ends, and hence with this process, however that ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// diesWithParent tells whether it does.
const diesWithParent = true
