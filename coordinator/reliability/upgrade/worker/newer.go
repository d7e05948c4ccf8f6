package main

import (
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// This file has what differs between versions. A file of testdata replaces it in earlier
// ones.

func cached() []coordinator.LockOption { return []coordinator.LockOption{coordinator.Cached()} }

func data(text string) coordinator.AcquireOption { return coordinator.Data([]byte(text)) }

func turn(g events.Grant) uint64 { return g.Turn }
