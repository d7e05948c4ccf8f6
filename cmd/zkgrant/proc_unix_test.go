//go:build unix && !linux

package main

func endFirstThread() {}
