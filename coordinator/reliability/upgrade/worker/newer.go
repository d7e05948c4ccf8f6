package main

import (
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// This file has what some versions lack. testdata/older.txt replaces it in those.

func cached() []coordinator.LockOption { return []coordinator.LockOption{coordinator.Cached()} }

func turn(g events.Grant) uint64 { return g.Turn }
