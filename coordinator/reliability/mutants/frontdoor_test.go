package mutants

// ofTheFrontDoor are mistakes in what callers call.
func ofTheFrontDoor() []mutant {
	return []mutant{
		{
			name:   "Close without waiting",
			breaks: "ends the session at Close without waiting for functions that run under a lock",
			edits: []edit{in("coordinator/coordinator.go", `	if !emptied(empty, bound/2) {`,
				`	if !emptied(empty, bound/1e9) {`)},
			found: finder{"coordinator", "TestCloseWaitsForFunctionsUnderALock"},
		},
		{
			name:   "goroutines left at Close",
			breaks: "returns from Close while goroutines are still running",
			edits: []edit{in("coordinator/coordinator.go", `	c.house.Group.Close()
	return err`, `	return err`)},
			found: finder{"coordinator", "TestCloseHasWaitedForTheStream"},
		},
		{
			name:   "Do without keeping",
			breaks: "gives the node up at a loss while the function of Do is still running",
			edits:  []edit{in("coordinator/lock.go", `	cfg.keep = true`, `	cfg.keep = false`)},
			found:  finder{"coordinator", "TestDoAfterALossKeepsTheNodeUntilTheFunctionHasReturned"},
		},
		{
			name:   "panic keeps the lock",
			breaks: "does not release the lock when the function of Do panics",
			edits: []edit{in("coordinator/lock.go", `	defer a.crash() // unless it was released before
`, ``)},
			found: finder{"coordinator", "TestDoLetsAPanicThrough"},
		},
		{
			name:   "loss swallowed",
			breaks: "returns from Do as if the lock had been held to the end",
			edits: []edit{in("coordinator/lock.go", `		err = errors.Join(end, err)`,
				`		err = errors.Join(nil, err)`)},
			found: finder{"coordinator", "TestDoAfterALossKeepsTheNodeUntilTheFunctionHasReturned"},
		},
		{
			name:   "deadlock not seen",
			breaks: "waits for a lock that the caller's own context holds",
			edits:  []edit{in("coordinator/acquisition.go", `		return nil, nil, nil, fmt.Errorf("%w: %s", ErrDeadlock, l.path)`, `		_ = fmt.Errorf("%w", ErrDeadlock)`)},
			found:  finder{"coordinator", "TestADeadlockIsSeenAtOnce"},
		},
		{
			name:   "context not cancelled",
			breaks: "does not cancel the lock's context when the lock is lost or released",
			edits:  []edit{in("coordinator/acquisition.go", `		cancel(err)`, `		_, _ = cancel, err`)},
			found:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
	}
}
